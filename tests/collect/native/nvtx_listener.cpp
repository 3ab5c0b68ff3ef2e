/* What the collectors' header hears of a program's NVTX ranges: prints each that ends. */
#include "nvtx_ranges.h"

#include <cstdio>

using namespace pasta;

extern "C" int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t)) {
    NvtxRanges::clock = [] { return int64_t{7}; };
    NvtxRanges::ended = [](const NvtxRange &range) {
        std::printf("%s in %zu since %lld\n", range.name.c_str(), NvtxRanges::open().size(), static_cast<long long>(range.began));
    };
    return NvtxRanges::install(export_table);
}
