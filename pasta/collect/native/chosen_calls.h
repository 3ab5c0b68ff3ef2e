/* Which calls of CUDA's runtime and driver are recorded; most of them ask or set, and are not. */
#ifndef PASTA_CHOSEN_CALLS_H
#define PASTA_CHOSEN_CALLS_H

#include <initializer_list>
#include <string_view>

namespace pasta {

enum class Calls { THAT_START_WORK, THAT_TAKE_TIME };

inline bool has_any(std::string_view name, std::initializer_list<std::string_view> words) {
    for (std::string_view word : words)
        if (name.find(word) != std::string_view::npos) return true;
    return false;
}

/* Whether the call makes a device run something; calls that build graphs do not. */
inline bool starts_work(std::string_view name) {
    return has_any(name, {"Launch", "Memcpy", "Memset"}) && !has_any(name, {"Node", "LaunchHostFunc"});
}

inline bool is_chosen(std::string_view name, Calls calls) {
    if (starts_work(name)) return true;
    return calls == Calls::THAT_TAKE_TIME &&
           has_any(name, {"Malloc", "MemAlloc", "MemFree", "cudaFree", "cuMemRelease", "HostAlloc", "HostRegister",
                          "HostUnregister", "Prefetch", "Synchronize", "WaitEvent", "EventRecord", "LaunchHostFunc"}) &&
           !has_any(name, {"Node"});
}

/* Whether the driver is asked for a launch, be it by the program or by CUDA's runtime. */
inline bool launches(std::string_view name) {
    return starts_work(name) && has_any(name, {"cuLaunch", "cuGraphLaunch"});
}

/* CUPTI names calls of the runtime with the version in which they came: cudaLaunchKernel_v7000. */
inline std::string_view without_version(std::string_view name) {
    size_t at = name.rfind("_v");
    bool versioned = at != std::string_view::npos && at + 2 < name.size() &&
                     name.find_first_not_of("0123456789", at + 2) == std::string_view::npos;
    return versioned ? name.substr(0, at) : name;
}

} // namespace pasta

#endif
