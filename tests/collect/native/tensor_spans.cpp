/* What tensor maps span, beside every element looked at by itself; prints how many maps and ranges were right. */
#include "tensor_spans.h"

#include <cinttypes>
#include <cstdio>
#include <random>
#include <set>

using namespace pasta;

namespace {

constexpr uint64_t PAGE = 0x7F12ull << 32;
std::mt19937_64 generator(7);
uint64_t between(uint64_t least, uint64_t most) { return least + generator() % (most - least + 1); }

struct Tensor {
    uint64_t address, stride[5] = {}, size[5] = {1, 1, 1, 1, 1};
    uint32_t rank, element_type;

    /* Dimensions lie in one another in any order, with gaps or without; some elements are in one place. */
    Tensor() : address(PAGE + 16 * between(0, 4096)), rank(static_cast<uint32_t>(between(1, 5))), element_type(static_cast<uint32_t>(between(0, 10))) {
        uint64_t next = 16;
        std::vector<uint32_t> order;
        for (uint32_t dimension = 1; dimension < rank; ++dimension) order.push_back(dimension);
        std::shuffle(order.begin(), order.end(), generator);
        size[0] = between(1, 300);
        stride[0] = map().stride(0);
        next = (size[0] * stride[0] + 15) / 16 * 16;
        for (uint32_t dimension : order) {
            size[dimension] = between(1, 7);
            stride[dimension] = between(1, 9) == 1 ? 0 : next + 16 * (between(0, 2) ? 0 : between(0, between(0, 1) ? 4 : 200));
            next = std::max<uint64_t>(next, stride[dimension] * size[dimension]);
        }
    }

    TensorMap map() const {
        TensorMap made{};
        made.words[0] = static_cast<uint32_t>(address);
        made.words[1] = static_cast<uint32_t>(address >> 32);
        made.words[2] = (rank - 1) << 4 | element_type << 7;
        for (uint32_t dimension = 0; dimension < 5; ++dimension) made.words[8 + dimension] = static_cast<uint32_t>(size[dimension] - 1);
        for (uint32_t dimension = 1; dimension < rank; ++dimension) {
            made.words[2 + dimension] = static_cast<uint32_t>(stride[dimension] >> 4);
            made.words[7] |= static_cast<uint32_t>(stride[dimension] >> 36 & 15) << 4 * (dimension - 1);
        }
        return made;
    }

    template <class Visit> void each_byte(Visit visit) const {
        uint64_t at[5] = {};
        for (bool more = true; more;) {
            uint64_t first = address;
            for (uint32_t dimension = 0; dimension < rank; ++dimension) first += at[dimension] * stride[dimension];
            for (uint64_t byte = 0; byte < map().stride(0); ++byte) visit(first + byte);
            more = false;
            for (uint32_t dimension = 0; dimension < rank && !more; ++dimension) {
                more = ++at[dimension] < size[dimension];
                if (!more) at[dimension] = 0;
            }
        }
    }
};

bool is_right(uint32_t shift) {
    MappedTensors tensors{{true, true, false}, {}};
    std::set<uint64_t> expected, found;
    bool extents = true;
    for (uint64_t count = between(1, 3); count; --count) {
        Tensor tensor;
        tensors.maps.push_back(tensor.map());
        uint64_t last = 0;
        tensor.each_byte([&](uint64_t byte) { expected.insert(byte >> shift), last = std::max(last, byte); });
        extents = extents && extent_of(tensor.map()) == last + 1 - tensor.address;
    }
    uint64_t behind = 0;
    bool in_order = true;
    const TensorSpans spans(tensors, shift);
    for (const Span &span : spans.all()) {
        in_order = in_order && span.begin > behind && span.end > span.begin;
        behind = span.end;
        for (uint64_t granule = span.begin >> shift; granule < span.end >> shift; ++granule) found.insert(granule);
    }
    return extents && in_order && found == expected;
}

/* Marks and spans of a page, by the byte: what was seen beside the spans and what they span are all, each once. */
bool adds_up(uint32_t shift, TensorCopies copies) {
    MappedTensors tensors{copies, {}};
    for (uint64_t count = between(1, 3); count; --count) tensors.maps.push_back(Tensor().map());
    const TensorSpans spans(tensors, shift);
    std::vector<uint32_t> words(mark_words(shift));
    for (int mark = 0; mark < 40; ++mark) words[between(0, (1 << 17) >> shift) / GRANULES_OF_WORD] |= 1u << between(0, 31);
    const Marks marks(PAGE, words.data(), shift, false);
    const uint64_t begin = PAGE + between(0, 1 << 16), end = begin + between(1, 1 << 16);
    auto is_spanned = [&](uint64_t byte) { return std::any_of(spans.all().begin(), spans.all().end(), [&](const Span &span) { return span.overlap(byte, byte + 1); }); };
    Touched expected, found = spans.beside(marks, begin, end);
    for (const Span &span : spans.all()) found += spans.touched(span.overlap(begin, end));
    for (uint64_t byte = begin; byte < end; ++byte) {
        uint64_t granule = (byte - PAGE) >> shift;
        uint32_t mark = words[granule / GRANULES_OF_WORD] >> granule % GRANULES_OF_WORD * 2 & 3;
        bool spanned = is_spanned(byte);
        expected.read += (mark & MARK_READ) != 0 || (spanned && copies.load && !copies.store);
        expected.written += (mark & MARK_WRITTEN) != 0 || (spanned && copies.store && !copies.load);
        expected.any += mark != 0 || spanned;
        expected.either |= spanned && copies.load && copies.store;
    }
    return found.any == expected.any && found.read == expected.read && found.written == expected.written && found.either == expected.either;
}

} // namespace

int main() {
    int maps = 0, ranges = 0;
    for (int turn = 0; turn < 600; ++turn) maps += is_right(static_cast<uint32_t>(between(5, 12)));
    for (int turn = 0; turn < 300; ++turn) ranges += adds_up(static_cast<uint32_t>(between(5, 12)), {turn % 3 != 1, turn % 3 != 0, false});
    Tensor wide;
    wide.rank = 3;
    wide.size[0] = 32, wide.size[1] = 1 << 10, wide.size[2] = 1 << 10, wide.size[3] = wide.size[4] = 1;
    wide.stride[1] = 1 << 14, wide.stride[2] = 1 << 25;
    const MappedTensors many{{true, false, false}, {wide.map()}};
    const TensorSpans one(many, 9);
    wide.stride[2] = 1ull << 39;
    std::printf("maps %d, ranges %d, of many rows %zu, beyond all addresses %" PRIu64 "\n", maps, ranges, one.all().size(), extent_of(wide.map()));
}
