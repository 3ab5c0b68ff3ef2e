/* Texts about CUDA devices and kernels. */
#ifndef PASTA_CUDA_TEXT_H
#define PASTA_CUDA_TEXT_H

#include "cxx_names.h"

#include <cuda.h>

#include <cstdint>
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

} // namespace pasta

#endif
