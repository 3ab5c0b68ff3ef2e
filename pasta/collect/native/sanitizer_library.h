/* Compute Sanitizer's library, found at run time; so the collector needs its headers only. */
#ifndef PASTA_SANITIZER_LIBRARY_H
#define PASTA_SANITIZER_LIBRARY_H

#include <dlfcn.h>
#include <sanitizer.h>

#include <cstdlib>
#include <string>

namespace pasta {

struct SanitizerLibrary {
    decltype(&sanitizerSubscribe) subscribe = nullptr;
    decltype(&sanitizerEnableDomain) enable_domain = nullptr;
    decltype(&sanitizerEnableCallback) enable_callback = nullptr;
    decltype(&sanitizerGetResultString) result_string = nullptr;
    decltype(&sanitizerAddPatchesFromFile) add_patches = nullptr;
    decltype(&sanitizerPatchInstructions) patch_instructions = nullptr;
    decltype(&sanitizerPatchModule) patch_module = nullptr;
    decltype(&sanitizerUnpatchModule) unpatch_module = nullptr;
    decltype(&sanitizerSetLaunchCallbackData) set_launch_data = nullptr;
    decltype(&sanitizerGetFunctionPcAndSize) function_code = nullptr;
    decltype(&sanitizerAlloc) allocate = nullptr;
    decltype(&sanitizerAllocHost) allocate_host = nullptr;
    decltype(&sanitizerFree) release = nullptr;
    decltype(&sanitizerMemcpyHostToDeviceAsync) copy_to_device = nullptr;
    decltype(&sanitizerMemcpyDeviceToHost) copy_to_host = nullptr;
    decltype(&sanitizerMemset) set_memory = nullptr;
    decltype(&sanitizerStreamSynchronize) synchronize = nullptr;
    decltype(&sanitizerGetStreamHandle) stream_handle = nullptr;
    decltype(&sanitizerGetCallbackState) callback_state = nullptr;

    /* Load it; return why it cannot be, or nothing. */
    std::string load() {
        void *library = nullptr;
        if (const char *told = std::getenv("PASTA_SANITIZER")) library = dlopen(told, RTLD_NOW);
        if (!library) library = dlopen("libsanitizer-public.so", RTLD_NOW);
        if (!library) return "no library of Compute Sanitizer was found: install nvidia-cuda-sanitizer-api";
        std::string missing;
        find(library, "sanitizerSubscribe", subscribe, missing);
        find(library, "sanitizerEnableDomain", enable_domain, missing);
        find(library, "sanitizerEnableCallback", enable_callback, missing);
        find(library, "sanitizerGetResultString", result_string, missing);
        find(library, "sanitizerAddPatchesFromFile", add_patches, missing);
        find(library, "sanitizerPatchInstructions", patch_instructions, missing);
        find(library, "sanitizerPatchModule", patch_module, missing);
        find(library, "sanitizerUnpatchModule", unpatch_module, missing);
        find(library, "sanitizerSetLaunchCallbackData", set_launch_data, missing);
        find(library, "sanitizerGetFunctionPcAndSize", function_code, missing);
        find(library, "sanitizerAlloc", allocate, missing);
        find(library, "sanitizerAllocHost", allocate_host, missing);
        find(library, "sanitizerFree", release, missing);
        find(library, "sanitizerMemcpyHostToDeviceAsync", copy_to_device, missing);
        find(library, "sanitizerMemcpyDeviceToHost", copy_to_host, missing);
        find(library, "sanitizerMemset", set_memory, missing);
        find(library, "sanitizerStreamSynchronize", synchronize, missing);
        find(library, "sanitizerGetStreamHandle", stream_handle, missing);
        find(library, "sanitizerGetCallbackState", callback_state, missing);
        return missing.empty() ? "" : "this Compute Sanitizer is too old: it has no " + missing;
    }

    /* Ask the library for what differs between versions: that of the headers need not be its own. */
    void ask(Sanitizer_SubscriberHandle subscriber) {
        constexpr Sanitizer_CallbackId GREEN_CONTEXT_CREATION_FINISHED = 29;
        uint32_t enabled = 0;
        knows_green_contexts = callback_state(&enabled, subscriber, SANITIZER_CB_DOMAIN_RESOURCE, GREEN_CONTEXT_CREATION_FINISHED) == SANITIZER_SUCCESS;
    }

    /* The handle in a Sanitizer_ResourceStreamData: behind the context, from 13.1 on its green context, and the stream. */
    Sanitizer_StreamHandle handle_of_stream(const void *data) const {
        return static_cast<const Sanitizer_StreamHandle *>(data)[knows_green_contexts ? 3 : 2];
    }

    CUstream stream_of(const void *data) const { return static_cast<const CUstream *>(data)[knows_green_contexts ? 2 : 1]; }

    std::string reason(SanitizerResult result) const {
        const char *text = nullptr;
        result_string(result, &text);
        return text ? text : "error " + std::to_string(result);
    }

  private:
    bool knows_green_contexts = false;

    template <class Function>
    static void find(void *library, const char *name, Function &function, std::string &missing) {
        function = reinterpret_cast<Function>(dlsym(library, name));
        if (!function) missing = name;
    }
};

/* What is needed of the driver, in which the program has called cuInit before anything here runs. */
struct Driver {
    decltype(&cuStreamIsCapturing) is_capturing = nullptr;
    decltype(&cuStreamQuery) query_stream = nullptr;
    decltype(&cuThreadExchangeStreamCaptureMode) exchange_capture_mode = nullptr;
    decltype(&cuStreamCreateWithPriority) create_stream = nullptr;
    decltype(&cuCtxSetCurrent) set_context = nullptr;
    decltype(&cuCtxGetCurrent) current_context = nullptr;
    decltype(&cuDeviceGetCount) device_count = nullptr;
    decltype(&cuDevicePrimaryCtxGetState) primary_context = nullptr;
    decltype(&cuDeviceGetName) device_name = nullptr;
    decltype(&cuDeviceGetUuid) device_uuid = nullptr;
    decltype(&cuDeviceTotalMem) device_memory = nullptr;
    decltype(&cuDeviceGetAttribute) device_attribute = nullptr;
    decltype(&cuTensorMapEncodeTiled) encode_tensor_map = nullptr; /* of drivers from CUDA 12.0 on */
    CUresult (*capture_info)(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *, const CUgraphNode **, size_t *) = nullptr;
    decltype(&cuFuncGetParamInfo) function_parameter = nullptr;    /* from CUDA 12.4 on */

    bool load() {
        void *library = dlopen("libcuda.so.1", RTLD_NOW);
        auto find = [&](const char *name, auto &function) {
            function = reinterpret_cast<std::decay_t<decltype(function)>>(library ? dlsym(library, name) : nullptr);
            return function != nullptr;
        };
        find("cuTensorMapEncodeTiled", encode_tensor_map);
        find("cuStreamGetCaptureInfo_v2", capture_info);
        find("cuFuncGetParamInfo", function_parameter);
        return find("cuStreamIsCapturing", is_capturing) && find("cuStreamQuery", query_stream) &&
               find("cuThreadExchangeStreamCaptureMode", exchange_capture_mode) &&
               find("cuStreamCreateWithPriority", create_stream) &&
               find("cuCtxSetCurrent", set_context) && find("cuCtxGetCurrent", current_context) &&
               find("cuDeviceGetCount", device_count) &&
               find("cuDevicePrimaryCtxGetState", primary_context) && find("cuDeviceGetName", device_name) &&
               find("cuDeviceGetUuid_v2", device_uuid) && find("cuDeviceTotalMem_v2", device_memory) &&
               find("cuDeviceGetAttribute", device_attribute);
    }
};

} // namespace pasta

#endif
