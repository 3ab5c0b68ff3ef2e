/* Peak rates of NVIDIA's cards. */
#ifndef PASTA_DEVICE_PEAKS_H
#define PASTA_DEVICE_PEAKS_H

#include <cstdint>

namespace pasta {

/* Floating-point operations, a multiply-add being two; 0: not known. */
struct Flops {
    double fp64 = 0, fp32 = 0, tf32 = 0, fp16 = 0, bf16 = 0, fp8 = 0;
};

/* What a multiprocessor does in a clock: the highest rate of any of its units without sparsity.
 *
 * FP32, and FP64 where there are no tensor cores for it: "Throughput of Native Arithmetic
 * Instructions", CUDA C++ Programming Guide. Tensor cores: NVIDIA's white papers on the
 * architectures. Where cards of one capability differ (GeForce and its professional siblings have
 * other rates with 32-bit accumulators) only what all have is told. */
inline Flops flops_per_clock(uint32_t major, uint32_t minor) {
    switch (major * 10 + minor) {
    case 70: return {.fp64 = 64, .fp32 = 128, .fp16 = 1024};
    case 75: return {.fp64 = 4, .fp32 = 128, .fp16 = 1024};
    case 80: return {.fp64 = 128, .fp32 = 128, .tf32 = 1024, .fp16 = 2048, .bf16 = 2048};
    case 86:
    case 89:
    case 120: return {.fp64 = 4, .fp32 = 256, .fp16 = 1024};
    case 90: return {.fp64 = 256, .fp32 = 256, .tf32 = 2048, .fp16 = 4096, .bf16 = 4096, .fp8 = 8192};
    case 100: return {.fp64 = 128, .fp32 = 256, .tf32 = 4096, .fp16 = 8192, .bf16 = 8192, .fp8 = 16384};
    default: return {};
    }
}

/* The same for a whole card, in a second. */
inline Flops peak_flops(uint32_t major, uint32_t minor, uint32_t multiprocessors, uint32_t clock_khz) {
    Flops peak = flops_per_clock(major, minor);
    for (double *rate : {&peak.fp64, &peak.fp32, &peak.tf32, &peak.fp16, &peak.bf16, &peak.fp8})
        *rate *= static_cast<double>(multiprocessors) * clock_khz * 1000.;
    return peak;
}

} // namespace pasta

#endif
