/* The arguments of the call that launches a kernel, and the tensor maps among them. */
#ifndef PASTA_LAUNCH_ARGUMENTS_H
#define PASTA_LAUNCH_ARGUMENTS_H

#include "sanitizer_library.h"
#include "tensor_spans.h"

#include <generated_cuda_meta.h>

#include <cstring>
#include <vector>

namespace pasta {

/* Before these a thread has the arguments of a launch. */
constexpr Sanitizer_CallbackId CALLS_THAT_LAUNCH[] = {
    SANITIZER_CBID_DRIVER_API_cuLaunchKernel,            SANITIZER_CBID_DRIVER_API_cuLaunchKernel_ptsz,
    SANITIZER_CBID_DRIVER_API_cuLaunchKernelEx,          SANITIZER_CBID_DRIVER_API_cuLaunchKernelEx_ptsz,
    SANITIZER_CBID_DRIVER_API_cuLaunchCooperativeKernel, SANITIZER_CBID_DRIVER_API_cuLaunchCooperativeKernel_ptsz,
};

class LaunchArguments {
  public:
    CUfunction function = nullptr;
    CUstream stream = nullptr;
    bool is_launched = false; /* a kernel that is captured begins in no launch */

    /* Those of the launch that this thread makes; none outside of one. */
    static LaunchArguments &here() {
        static thread_local LaunchArguments arguments;
        return arguments;
    }

    static LaunchArguments of(Sanitizer_CallbackId id, const void *parameters) {
        switch (id) {
        case SANITIZER_CBID_DRIVER_API_cuLaunchKernel:
        case SANITIZER_CBID_DRIVER_API_cuLaunchKernel_ptsz: {
            auto &launch = *static_cast<const cuLaunchKernel_params *>(parameters);
            return {launch.f, launch.hStream, launch.kernelParams, launch.extra};
        }
        case SANITIZER_CBID_DRIVER_API_cuLaunchKernelEx:
        case SANITIZER_CBID_DRIVER_API_cuLaunchKernelEx_ptsz: {
            auto &launch = *static_cast<const cuLaunchKernelEx_params *>(parameters);
            return {launch.f, launch.config ? launch.config->hStream : nullptr, launch.kernelParams, launch.extra};
        }
        default: {
            auto &launch = *static_cast<const cuLaunchCooperativeKernel_params *>(parameters);
            return {launch.f, launch.hStream, launch.kernelParams, nullptr};
        }
        }
    }

    LaunchArguments() = default;

    /* What looks like a map: 64 bytes, of which all that a map says can be. Asked once: the arguments are of this kernel alone. */
    std::vector<TensorMap> take_tensor_maps(decltype(&cuFuncGetParamInfo) parameter, CUfunction kernel) {
        std::vector<TensorMap> found;
        if (packed) find_maps(static_cast<const char *>(packed), packed_bytes, found);
        size_t offset = 0, bytes = 0;
        for (size_t number = 0; each && parameter && parameter(kernel, number, &offset, &bytes) == CUDA_SUCCESS; ++number)
            find_maps(static_cast<const char *>(each[number]), bytes, found);
        each = nullptr;
        packed = nullptr;
        return found;
    }

  private:
    void **each = nullptr;        /* pointers to arguments; or, instead: */
    const void *packed = nullptr; /* all of them in one piece of memory */
    size_t packed_bytes = 0;

    LaunchArguments(CUfunction its_function, CUstream its_stream, void **parameters, void **extra) : function(its_function), stream(its_stream), each(parameters) {
        for (void **pair = extra; pair && pair[0] != CU_LAUNCH_PARAM_END; pair += 2) {
            if (pair[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) packed = pair[1];
            if (pair[0] == CU_LAUNCH_PARAM_BUFFER_SIZE) packed_bytes = *static_cast<const size_t *>(pair[1]);
        }
    }

    /* On the device maps begin at whole 64 bytes; arguments there begin at whole 16. */
    static void find_maps(const char *argument, size_t bytes, std::vector<TensorMap> &found) {
        for (size_t offset = 0; offset + sizeof(TensorMap) <= bytes;) {
            TensorMap map;
            std::memcpy(&map, argument + offset, sizeof(map));
            bool is_map = can_be(map);
            if (is_map) found.push_back(map);
            offset += is_map ? sizeof(TensorMap) : 16;
        }
    }

    static bool can_be(const TensorMap &map) {
        if (!map.is_known() || !map.address() || map.address() % 16 || map.words[15] || !extent_of(map)) return false;
        if (map.box(0) * map.stride(0) % 16) return false;
        for (uint32_t dimension = map.rank(); dimension < 5; ++dimension)
            if (map.size(dimension) != 1 || map.box(dimension) != 1) return false;
        return true;
    }
};

} // namespace pasta

#endif
