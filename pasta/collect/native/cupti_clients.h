/* Who in a process uses CUPTI or what excludes it, as far as its libraries tell. */
#ifndef PASTA_CUPTI_CLIENTS_H
#define PASTA_CUPTI_CLIENTS_H

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace pasta {

/* The clients whose libraries a process has mapped; `maps` is its /proc/PID/maps, `own` the library of
 * whoever asks. */
inline std::string clients_in(std::string_view maps, std::string_view own = {}) {
    static constexpr struct {
        std::string_view library, client;
    } known[] = {
        {"libsanitizer-", "Compute Sanitizer"},
        {"libToolsInjection", "Nsight Systems"},
        {"libcuda-injection", "Nsight Compute"},
        {"libInterceptorInjectionTarget", "a tool of Nsight Compute's or Compute Sanitizer's"},
        {"libcudadebugger", "cuda-gdb"},
        {"libhpcrun", "HPCToolkit"},
        {"libtau", "TAU"},
        {"libscorep", "Score-P"},
        {"libdcgm", "DCGM"},
        {"libproton", "Triton's Proton"},
        {"libxla", "XLA's profiler"},
        {"libtensorflow", "TensorFlow's profiler"},
        {"libtorch_cpu", "PyTorch's profiler"},
    };
    std::string found;
    for (auto &[library, client] : known)
        if (library != own && maps.find(library) != std::string_view::npos)
            found.append(found.empty() ? "" : " or ").append(client);
    return found;
}

/* The same of this process, or of whom it may be where no library tells. */
inline std::string cupti_clients(std::string_view own = {}) {
    std::ostringstream maps;
    maps << std::ifstream("/proc/self/maps").rdbuf();
    std::string found = clients_in(maps.str(), own);
    return found.empty() ? "the program itself, or a tool it runs under" : found;
}

} // namespace pasta

#endif
