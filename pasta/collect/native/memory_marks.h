/* Reading the marks of a leaf: how many bytes of a range were read, written, and either. */
#ifndef PASTA_MEMORY_MARKS_H
#define PASTA_MEMORY_MARKS_H

#include "memory_state.h"

#include <algorithm>
#include <bit>

namespace pasta {

struct Touched {
    uint64_t read = 0, written = 0, any = 0; /* distinct bytes */
    uint64_t accesses[KINDS] = {};
    bool either = false; /* of some of them it is not known which: then `read` and `written` say nothing */

    bool nothing() const { return !(any | read | written) && !(accesses[READ] | accesses[WRITE] | accesses[ATOMIC]); }

    Touched &operator+=(const Touched &other) {
        read += other.read;
        written += other.written;
        any += other.any;
        either |= other.either;
        for (uint32_t kind = 0; kind < KINDS; ++kind) accesses[kind] += other.accesses[kind];
        return *this;
    }
};

/* The marks of one page, and its counters where there are any. */
class Marks {
  public:
    Marks(uint64_t page_address, const uint32_t *leaf, uint32_t granule_shift, bool counted)
        : page(page_address), words(leaf), shift(granule_shift),
          counters(counted ? leaf + mark_words(granule_shift) : nullptr) {}

    uint64_t begin() const { return page; }
    uint64_t end() const { return page + PAGE_BYTES; }

    /* What was touched of the bytes [begin, end), cut to the page. */
    Touched of(uint64_t begin, uint64_t end) const {
        begin = std::max(begin, page);
        end = std::min(end, page + PAGE_BYTES);
        Touched sum;
        if (begin >= end) return sum;
        uint64_t first = (begin - page) >> shift, last = (end - 1 - page) >> shift;
        for (uint64_t at = first / GRANULES_OF_WORD; at <= last / GRANULES_OF_WORD; ++at) add_word(at, first, last, sum);
        cut(sum, first, begin - (page + (first << shift)));
        cut(sum, last, page + ((last + 1) << shift) - end);
        return sum;
    }

    /* Call `visit(block, counts)` with each block of [begin, end) that was accessed; blocks are numbered
     * from address 0. */
    template <class Visit> void each_block(uint64_t begin, uint64_t end, uint32_t block_shift, Visit visit) const {
        begin = std::max(begin, page);
        end = std::min(end, page + PAGE_BYTES);
        while (begin < end) {
            uint64_t next = std::min(end, ((begin >> block_shift) + 1) << block_shift);
            Touched touched = of(begin, next);
            if (touched.accesses[READ] | touched.accesses[WRITE] | touched.accesses[ATOMIC]) visit(begin >> block_shift, touched.accesses);
            begin = next;
        }
    }

  private:
    static constexpr uint32_t READS = 0x55555555u;
    const uint64_t page;
    const uint32_t *words;
    const uint32_t shift;
    const uint32_t *counters;

    uint32_t mark(uint64_t granule) const { return words[granule / GRANULES_OF_WORD] >> granule % GRANULES_OF_WORD * 2 & 3; }

    void add_word(uint64_t at, uint64_t first, uint64_t last, Touched &sum) const {
        uint32_t word = words[at];
        if (!word) return;
        if (at == first / GRANULES_OF_WORD) word &= ~0u << first % GRANULES_OF_WORD * 2;
        if (at == last / GRANULES_OF_WORD) word &= ~0u >> (GRANULES_OF_WORD - 1 - last % GRANULES_OF_WORD) * 2;
        sum.read += static_cast<uint64_t>(std::popcount(word & READS)) << shift;
        sum.written += static_cast<uint64_t>(std::popcount(word >> 1 & READS)) << shift;
        sum.any += static_cast<uint64_t>(std::popcount((word | word >> 1) & READS)) << shift;
        if (!counters) return;
        for (uint32_t rest = (word | word >> 1) & READS; rest; rest &= rest - 1) {
            uint64_t granule = at * GRANULES_OF_WORD + std::countr_zero(rest) / 2;
            for (uint32_t kind = 0; kind < KINDS; ++kind) sum.accesses[kind] += counters[granule * KINDS + kind];
        }
    }

    /* Take away the bytes of a marked granule that lie outside the range. */
    void cut(Touched &sum, uint64_t granule, uint64_t bytes) const {
        uint32_t marked = mark(granule);
        if (marked & MARK_READ) sum.read -= bytes;
        if (marked & MARK_WRITTEN) sum.written -= bytes;
        if (marked) sum.any -= bytes;
    }
};

} // namespace pasta

#endif
