/* Reads a leaf's words and then ranges of addresses from stdin, and prints what Marks tells of each.
 *
 *     memory_marks PAGE GRANULE_SHIFT COUNTED BLOCK_SHIFT RANGES < words, then pairs of 8-byte numbers */
#include "../../../pasta/collect/native/memory_marks.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace pasta;

namespace {

template <class Item> std::vector<Item> read(size_t count) {
    std::vector<Item> items(count);
    if (std::fread(items.data(), sizeof(Item), count, stdin) != count) std::exit(1);
    return items;
}

} // namespace

int main(int, char **arguments) {
    auto number = [&](int argument) { return std::strtoull(arguments[argument], nullptr, 10); };
    const uint64_t page = number(1), count = number(5);
    const auto shift = static_cast<uint32_t>(number(2)), block_shift = static_cast<uint32_t>(number(4));
    const bool counted = number(3);
    const size_t words = mark_words(shift) + (counted ? counter_words(shift) : 0);
    const auto leaf = read<uint32_t>(words);
    const auto ranges = read<uint64_t>(2 * count);
    const Marks marks(page, leaf.data(), shift, counted);
    for (size_t range = 0; range < count; ++range) {
        uint64_t begin = ranges[2 * range], end = ranges[2 * range + 1];
        Touched all = marks.of(begin, end);
        std::printf("%" PRIu64 " %" PRIu64 " %" PRIu64, all.read, all.written, all.any);
        for (uint64_t accesses : all.accesses) std::printf(" %" PRIu64, accesses);
        marks.each_block(begin, end, block_shift, [](uint64_t block, const uint64_t(&counts)[KINDS]) {
            std::printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, block, counts[READ], counts[WRITE], counts[ATOMIC]);
        });
        std::puts("");
    }
    return 0;
}
