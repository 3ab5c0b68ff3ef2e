/* Tensor maps among the arguments of calls that launch kernels; prints where those that are found begin, call by call. */
#include "launch_arguments.h"

#include <cinttypes>
#include <cstdio>
#include <thread>

using namespace pasta;

namespace {

constexpr uint64_t ADDRESS = 0x7F0000001000;

/* 256 rows of 32 floats, as the driver makes it: what the hardware reads, and behind that its own. */
struct alignas(64) Map {
    TensorMap read{};
    uint32_t own[16] = {0x7777, 0x7777};

    explicit Map(uint64_t address) {
        const uint32_t words[] = {static_cast<uint32_t>(address), static_cast<uint32_t>(address >> 32), 1 << 4 | 7 << 7, 128 >> 4, 0, 0, 0, 0, 31, 255, 0, 0, 0, 31u << 24, 3, 0};
        std::copy(std::begin(words), std::end(words), read.words);
    }
};

/* As compilers lay arguments out: a number, a map, a structure with two, a pointer. */
struct Arguments {
    uint64_t count = 5;
    Map first{ADDRESS};
    struct {
        float scale = 1;
        Map second{ADDRESS + 4096}, third{ADDRESS + 8192};
    } inner;
    void *pointer = nullptr;
} arguments;

const size_t OFFSETS[] = {0, 64, 192, 512}, BYTES[] = {8, 128, 320, 8};
void *each[] = {&arguments.count, &arguments.first, &arguments.inner, &arguments.pointer};

CUresult parameter(CUfunction, size_t number, size_t *offset, size_t *bytes) {
    if (number >= std::size(OFFSETS)) return CUDA_ERROR_INVALID_VALUE;
    *offset = OFFSETS[number];
    *bytes = BYTES[number];
    return CUDA_SUCCESS;
}

void tell(const char *what) {
    std::printf("%s:", what);
    for (const TensorMap &map : LaunchArguments::here().take_tensor_maps(&parameter, nullptr)) std::printf(" %" PRIu64, map.address() - ADDRESS);
    std::puts("");
}

void call(Sanitizer_CallbackId id, const void *parameters) { LaunchArguments::here() = LaunchArguments::of(id, parameters); }

/* A map of which one word is another is none, or begins elsewhere. */
void tell_changed(const char *what, size_t word, uint32_t value) {
    const Map before = arguments.first;
    arguments.first.read.words[word] = value;
    cuLaunchKernel_params launch{};
    launch.kernelParams = each;
    call(SANITIZER_CBID_DRIVER_API_cuLaunchKernel, &launch);
    tell(what);
    arguments.first = before;
}

} // namespace

int main() {
    tell("no call");
    cuLaunchKernel_params launch{};
    launch.kernelParams = each;
    call(SANITIZER_CBID_DRIVER_API_cuLaunchKernel, &launch);
    std::thread([] { tell("another thread"); }).join();
    tell("cuLaunchKernel");
    tell("asked again");
    cuLaunchCooperativeKernel_params cooperative{};
    cooperative.kernelParams = each;
    call(SANITIZER_CBID_DRIVER_API_cuLaunchCooperativeKernel, &cooperative);
    tell("cuLaunchCooperativeKernel");
    size_t bytes = sizeof(arguments);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    cuLaunchKernelEx_params packed{};
    packed.extra = extra;
    call(SANITIZER_CBID_DRIVER_API_cuLaunchKernelEx, &packed);
    tell("cuLaunchKernelEx, packed");
    cuLaunchKernelEx_params with_config{};
    with_config.kernelParams = each;
    call(SANITIZER_CBID_DRIVER_API_cuLaunchKernelEx_ptsz, &with_config);
    tell("cuLaunchKernelEx");
    tell_changed("at an odd address", 0, static_cast<uint32_t>(ADDRESS) + 8);
    tell_changed("interleaved", 2, 1 << 4 | 7 << 7 | 1 << 11);
    tell_changed("of no type", 2, 1 << 4 | 15 << 7);
    tell_changed("of more than there is", 7, 0xFFFF);
    tell_changed("sized beyond its rank", 10, 7);
    tell_changed("a box of no whole 16 bytes", 13, 30u << 24);
    tell_changed("followed by something", 15, 1);
}
