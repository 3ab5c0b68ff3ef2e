/* Prints what the memory collector reads out of its settings ($PASTA_COLLECT), for the tests. */
#include "../../../pasta/collect/native/memory_options.h"

#include <cstdio>

using namespace pasta;

/* memory_options text KEY | range FIRST:LAST:EVERY COUNT | options NAME... */
int main(int count, char **arguments) {
    const std::string what = arguments[1], settings = std::getenv("PASTA_COLLECT") ? std::getenv("PASTA_COLLECT") : "";
    if (what == "text") {
        std::fputs(json_text(settings, MemoryOptions::NAME, arguments[2]).value_or("(none)").c_str(), stdout);
    } else if (what == "range") {
        LaunchRange range = LaunchRange::from(arguments[2]);
        for (uint64_t number = 0; number < std::strtoull(arguments[3], nullptr, 10); ++number)
            if (range.has(number)) std::printf("%d ", static_cast<int>(number));
        std::fputs(range.all() ? "all" : "some", stdout);
    } else {
        MemoryOptions options = MemoryOptions::from(settings);
        std::printf("%s records=%d counts=%d spaces=%d tensor_loads=%d switched=%d events=%d stacks=%d serial=%d granule=%u block=%u device=%llu blocks=%llu:%llu",
                    options.patches().c_str(), options.records, options.counts, options.every_space, static_cast<int>(options.tensor_loads), options.switched, options.events, options.stacks,
                    options.serial, 1u << options.granule_shift, 1u << options.block_shift,
                    static_cast<unsigned long long>(options.device_bytes), static_cast<unsigned long long>(options.blocks.first),
                    static_cast<unsigned long long>(options.blocks.last));
        for (int kernel = 2; kernel < count; ++kernel) std::printf(" %d", options.wants(arguments[kernel]));
    }
    return 0;
}
