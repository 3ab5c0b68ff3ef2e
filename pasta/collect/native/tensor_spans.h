/* Which memory tensor maps span: all that a copy by them can touch. */
#ifndef PASTA_TENSOR_SPANS_H
#define PASTA_TENSOR_SPANS_H

#include "memory_marks.h"
#include "memory_tensor_map.h"

#include <algorithm>
#include <vector>

namespace pasta {

/* What tensor copies a kernel has. */
struct TensorCopies {
    bool load = false, store = false, reduce = false;

    bool any() const { return load || store || reduce; }
    TensorCopies &operator|=(const TensorCopies &other) {
        load |= other.load;
        store |= other.store;
        reduce |= other.reduce;
        return *this;
    }
};

/* The maps that a kernel is given, by which it copies without being watched. */
struct MappedTensors {
    TensorCopies copies;
    std::vector<TensorMap> maps;
};

/* Bytes from a map's first element to behind its last; 0: more than there can be. */
inline uint64_t extent_of(const TensorMap &map) {
    constexpr uint64_t MOST = 1ull << 47;
    uint64_t last = 0;
    for (uint32_t dimension = 0; dimension < map.rank(); ++dimension) {
        auto steps = static_cast<uint64_t>(map.size(dimension) - 1);
        if (steps && map.stride(dimension) > (MOST - last) / steps) return 0;
        last += steps * map.stride(dimension);
    }
    return last + map.stride(0);
}

struct Span {
    uint64_t begin, end;

    uint64_t overlap(uint64_t from, uint64_t to) const {
        uint64_t first = std::max(begin, from), last = std::min(end, to);
        return first < last ? last - first : 0;
    }
};

/* Whole granules, in order, none twice. */
class TensorSpans {
  public:
    TensorSpans() = default;

    TensorSpans(const MappedTensors &tensors, uint32_t granule_shift) : copies(tensors.copies), granule(1ull << granule_shift) {
        for (const TensorMap &map : tensors.maps) add(map);
        std::sort(spans.begin(), spans.end(), [](const Span &one, const Span &other) { return one.begin < other.begin; });
        size_t kept = 0;
        for (const Span &span : spans) {
            if (kept && span.begin <= spans[kept - 1].end) spans[kept - 1].end = std::max(spans[kept - 1].end, span.end);
            else spans[kept++] = span;
        }
        spans.resize(kept);
    }

    const std::vector<Span> &all() const { return spans; }

    /* So many bytes of them: where a kernel both reads and writes by maps, which it does is not known. */
    Touched touched(uint64_t bytes) const {
        Touched all;
        all.any = bytes;
        all.either = bytes && !reads_alone() && !writes_alone();
        if (reads_alone()) all.read = bytes;
        if (writes_alone()) all.written = bytes;
        return all;
    }

    /* What was seen of a range, cut to the page of the marks, beside what is counted as spanned. */
    Touched beside(const Marks &marks, uint64_t begin, uint64_t end) const {
        begin = std::max(begin, marks.begin());
        end = std::min(end, marks.end());
        Touched seen = marks.of(begin, end);
        auto next = std::upper_bound(spans.begin(), spans.end(), begin, [](uint64_t address, const Span &span) { return address < span.end; });
        if (next == spans.end() || next->begin >= end) return seen;
        Touched left;
        for (; begin < end; ++next) {
            bool is_last = next == spans.end() || next->begin >= end;
            left += marks.of(begin, is_last ? end : next->begin);
            begin = is_last ? end : next->end;
        }
        seen.any = left.any;
        if (reads_alone()) seen.read = left.read;
        if (writes_alone()) seen.written = left.written;
        return seen;
    }

  private:
    static constexpr uint64_t MOST_ROWS = 1 << 16; /* of a map; one of more counts from its first byte to its last */
    TensorCopies copies;
    uint64_t granule = 1;
    std::vector<Span> spans;

    bool reads_alone() const { return copies.load && !copies.store && !copies.reduce; }
    bool writes_alone() const { return copies.store && !copies.load && !copies.reduce; }

    struct Dimension {
        uint64_t stride, size;
    };

    /* Dimensions that leave no whole granule out between their elements make rows; the others repeat these. */
    void add(const TensorMap &map) {
        std::vector<Dimension> dimensions;
        for (uint32_t number = 0; number < map.rank(); ++number) dimensions.push_back({map.stride(number), static_cast<uint64_t>(map.size(number))});
        std::sort(dimensions.begin(), dimensions.end(), [](const Dimension &one, const Dimension &other) { return one.stride < other.stride; });
        uint64_t row = map.stride(0), rows = 1;
        std::vector<Dimension> repeated;
        for (const Dimension &dimension : dimensions) {
            if (dimension.size == 1) continue;
            if (repeated.empty() && dimension.stride < row + granule) {
                row += dimension.stride * (dimension.size - 1);
                continue;
            }
            repeated.push_back(dimension);
            rows = std::min(rows, MOST_ROWS + 1) * std::min(dimension.size, MOST_ROWS + 1);
        }
        if (rows > MOST_ROWS) return add_row(map.address(), extent_of(map));
        add_rows(map.address(), row, repeated, repeated.size());
    }

    void add_rows(uint64_t address, uint64_t row, const std::vector<Dimension> &repeated, size_t dimensions) {
        if (!dimensions) return add_row(address, row);
        const Dimension &outer = repeated[dimensions - 1];
        for (uint64_t number = 0; number < outer.size; ++number) add_rows(address + number * outer.stride, row, repeated, dimensions - 1);
    }

    void add_row(uint64_t address, uint64_t bytes) { spans.push_back({address & ~(granule - 1), (address + bytes + granule - 1) & ~(granule - 1)}); }
};

} // namespace pasta

#endif
