/* CUPTI, found at run time: the library that the program has loaded, else the one that the launcher
 * found. So the collector needs CUPTI's headers only, and runs where there is none. */
#ifndef PASTA_CUPTI_LIBRARY_H
#define PASTA_CUPTI_LIBRARY_H

#include <cupti.h>
#include <dlfcn.h>

#include <cstdlib>
#include <string>

namespace pasta {

struct Cupti {
    decltype(&cuptiGetResultString) result_string = nullptr;
    decltype(&cuptiSubscribe) subscribe = nullptr;
    decltype(&cuptiEnableCallback) enable_callback = nullptr;
    decltype(&cuptiGetCallbackName) callback_name = nullptr;
    decltype(&cuptiSetThreadIdType) set_thread_id_type = nullptr;
    decltype(&cuptiActivityRegisterTimestampCallback) register_clock = nullptr;
    decltype(&cuptiActivityRegisterCallbacks) register_buffers = nullptr;
    decltype(&cuptiActivitySetAttribute) set_attribute = nullptr;
    decltype(&cuptiActivityEnable) enable = nullptr;
    decltype(&cuptiActivityEnableRuntimeApi) enable_runtime_call = nullptr;
    decltype(&cuptiActivityEnableDriverApi) enable_driver_call = nullptr;
    decltype(&cuptiActivityConfigureUnifiedMemoryCounter) configure_managed_memory = nullptr;
    decltype(&cuptiActivityFlushAll) flush_all = nullptr;
    decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
    decltype(&cuptiActivityGetNumDroppedRecords) dropped_records = nullptr;

    /* Load it; return why it cannot be, or nothing. */
    std::string load() {
        void *library = open();
        if (!library) return "no CUPTI library was found: install the CUDA toolkit or nvidia-cuda-cupti";
        std::string missing;
        find(library, "cuptiGetResultString", result_string, missing);
        find(library, "cuptiSubscribe", subscribe, missing);
        find(library, "cuptiEnableCallback", enable_callback, missing);
        find(library, "cuptiGetCallbackName", callback_name, missing);
        find(library, "cuptiSetThreadIdType", set_thread_id_type, missing);
        find(library, "cuptiActivityRegisterTimestampCallback", register_clock, missing);
        find(library, "cuptiActivityRegisterCallbacks", register_buffers, missing);
        find(library, "cuptiActivitySetAttribute", set_attribute, missing);
        find(library, "cuptiActivityEnable", enable, missing);
        find(library, "cuptiActivityEnableRuntimeApi", enable_runtime_call, missing);
        find(library, "cuptiActivityEnableDriverApi", enable_driver_call, missing);
        find(library, "cuptiActivityConfigureUnifiedMemoryCounter", configure_managed_memory, missing);
        find(library, "cuptiActivityFlushAll", flush_all, missing);
        find(library, "cuptiActivityGetNextRecord", next_record, missing);
        find(library, "cuptiActivityGetNumDroppedRecords", dropped_records, missing);
        return missing.empty() ? "" : "this CUPTI is too old: it has no " + missing;
    }

    std::string reason(CUptiResult result) const {
        const char *text = nullptr;
        result_string(result, &text);
        return text ? text : "error " + std::to_string(result);
    }

  private:
    static void *open() {
        static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
        void *library = nullptr;
        const char *told = std::getenv("PASTA_CUPTI");
        for (const char *name : names)
            if (!library) library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
        if (!library && told) library = dlopen(told, RTLD_NOW);
        for (const char *name : names)
            if (!library) library = dlopen(name, RTLD_NOW);
        return library;
    }

    template <class Function>
    static void find(void *library, const char *name, Function &function, std::string &missing) {
        function = reinterpret_cast<Function>(dlsym(library, name));
        if (!function) missing = name;
    }
};

} // namespace pasta

#endif
