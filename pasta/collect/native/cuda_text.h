/* Texts about CUDA devices and kernels. */
#ifndef PASTA_CUDA_TEXT_H
#define PASTA_CUDA_TEXT_H

#include <cuda.h>
#include <cxxabi.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

namespace pasta {

/* As nvidia-smi shows it. */
inline std::string uuid_text(const CUuuid &uuid) {
    static const char digits[] = "0123456789abcdef";
    std::string text = "GPU-";
    for (size_t at = 0; at < sizeof(uuid.bytes); ++at) {
        auto byte = static_cast<uint8_t>(uuid.bytes[at]);
        text += {digits[byte >> 4], digits[byte & 15]};
        if (at == 3 || at == 5 || at == 7 || at == 9) text += '-';
    }
    return text;
}

/* The name as C++ has it; what is not mangled stays as it is. */
inline std::string demangled(const char *name) {
    int status = 0;
    std::unique_ptr<char, void (*)(void *)> plain(abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
    return status == 0 ? plain.get() : name;
}

} // namespace pasta

#endif
