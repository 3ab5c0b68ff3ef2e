/* Reading raw records out of the ring that kernels fill, on a thread of its own. */
#ifndef PASTA_MEMORY_RECORDS_H
#define PASTA_MEMORY_RECORDS_H

#include "memory_rows.h"

#include <emmintrin.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace pasta {

/* What a warp's instruction accessed, as it travels: see warp_accesses.py. */
struct WarpAccess {
    uint64_t launch, request, base, block;
    int32_t device;
    uint32_t offset, bytes, warp, lanes;
    uint8_t operation, space;
    uint16_t unused;
    uint32_t distances[32];
};
static_assert(sizeof(WarpAccess) == 184, "whole items of 8 bytes");

/* Rows of `warp_access`, as many as a slot of the channel takes. */
class WarpRows {
  public:
    explicit WarpRows(const Ring &ring) : capacity(fitting(ring.slot_bytes())), rows(capacity) {
        for (size_t row = 0; row <= capacity; ++row) offsets.push_back(static_cast<int32_t>(row * sizeof(WarpAccess) / 8));
    }

    /* The row that `add` appends. */
    WarpAccess &next() { return rows[used]; }

    void add(Ring &ring) {
        if (++used == capacity) write(ring);
    }

    void write(Ring &ring) {
        if (!used) return;
        int table = ring.table("warp_access");
        ring.write(table, {{ring.column(table, "record"), rows.data(), offsets.data(), nullptr, nullptr}}, used);
        used = 0;
    }

  private:
    static constexpr size_t SLOT_OVERHEAD = 512; /* the slot's header, and what aligns the column */
    const size_t capacity;
    size_t used = 0;
    std::vector<WarpAccess> rows;
    std::vector<int32_t> offsets;

    static size_t fitting(size_t slot_bytes) {
        return std::max<size_t>((std::max(slot_bytes, SLOT_OVERHEAD) - SLOT_OVERHEAD) / (sizeof(WarpAccess) + sizeof(int32_t)), 1);
    }
};

class RecordReader {
  public:
    std::atomic<uint64_t> accesses{0};

    RecordReader(const char *folder, int32_t rank, int32_t its_device, const Record *ring_of_records, RingHost *ring_host, bool rows_wanted)
        : ring(folder, rank, RING_PATIENCE), rows(ring), device(its_device), records(ring_of_records), host(ring_host), wanted(rows_wanted),
          thread([this] { run(); }) {}

    /* Read up to `head` records, for at most so long; return how many are missing. */
    uint64_t finish(uint64_t head, int64_t wait_ns) {
        until.store(pasta_clock(CLOCK_MONOTONIC) + static_cast<uint64_t>(wait_ns));
        last.store(head);
        thread.join();
        return head - tail;
    }

    ~RecordReader() {
        if (thread.joinable()) finish(0, 0);
    }

  private:
    static constexpr uint64_t NOT_YET = UINT64_MAX;
    static constexpr uint64_t WRITE_EVERY_NS = 20'000'000; /* where kernels pause, as small batches are dear */
    static constexpr uint64_t TOGETHER = 256; /* records between looks at the clock, and tellings of the tail */
    Ring ring;
    WarpRows rows;
    const int32_t device;
    const Record *records;
    RingHost *host;
    const bool wanted;
    uint64_t tail = 0, written = 0;
    std::atomic<uint64_t> last{NOT_YET}, until{0};
    std::thread thread; /* last, as it uses all the above */

    void run() {
        for (;;) {
            uint64_t read = 0;
            while (read < TOGETHER && take()) ++read;
            if (read) {
                host->tail = tail;
                continue;
            }
            uint64_t end = last.load(), now = pasta_clock(CLOCK_MONOTONIC);
            bool over = end != NOT_YET && (tail >= end || now > until.load());
            if (over || now - written > WRITE_EVERY_NS) {
                rows.write(ring);
                written = now;
            }
            if (over) return;
            usleep(20);
        }
    }

    uint32_t lap() const { return static_cast<uint32_t>(tail >> RING_RECORDS_SHIFT) + 1; }

    /* A part is written at once, and says in which lap. */
    bool read(const HeadPart &part, uint32_t *words) const {
        alignas(16) uint32_t value[4];
        _mm_store_si128(reinterpret_cast<__m128i *>(value), _mm_load_si128(reinterpret_cast<const __m128i *>(&part)));
        std::atomic_signal_fence(std::memory_order_seq_cst);
        std::copy_n(value, 3, words);
        return value[3] == lap();
    }

    /* Read all distances; return for which lanes they are of this lap. */
    uint32_t read(const LanePart (&parts)[32], uint32_t *distances) const {
        const __m128i now = _mm_set1_epi32(static_cast<int>(lap()));
        uint32_t known = 0;
        for (uint32_t lane = 0; lane < 32; lane += 4) {
            auto four = reinterpret_cast<const __m128i *>(parts + lane);
            __m128 first = _mm_castsi128_ps(_mm_load_si128(four)), second = _mm_castsi128_ps(_mm_load_si128(four + 1));
            __m128i laps = _mm_castps_si128(_mm_shuffle_ps(first, second, _MM_SHUFFLE(3, 1, 3, 1)));
            _mm_storeu_ps(reinterpret_cast<float *>(distances + lane), _mm_shuffle_ps(first, second, _MM_SHUFFLE(2, 0, 2, 0)));
            auto same = static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(laps, now))));
            known |= same << lane;
        }
        return known;
    }

    bool take() {
        const Record &record = records[tail & (RING_RECORDS - 1)];
        uint32_t head[12];
        for (uint32_t part = 0; part < 4; ++part)
            if (!read(record.head[part], head + 3 * part)) return false;
        WarpAccess &row = rows.next();
        uint32_t lanes = head[0];
        if ((read(record.lane, row.distances) & lanes) != lanes) return false;
        accesses.store(accesses.load(std::memory_order_relaxed) + static_cast<uint64_t>(__builtin_popcount(lanes)), std::memory_order_relaxed);
        if (wanted) {
            fill(row, head);
            rows.add(ring);
        }
        ++tail;
        return true;
    }

    void fill(WarpAccess &row, const uint32_t *head) const {
        auto wide = [](uint32_t low, uint32_t high) { return low | static_cast<uint64_t>(high) << 32; };
        row.device = device;
        row.lanes = head[0];
        row.offset = head[1];
        row.launch = head[2];
        row.base = wide(head[3], head[4]);
        row.bytes = head[5];
        row.block = wide(head[6], head[7] >> 8);
        row.warp = head[7] & 0xFF;
        row.operation = static_cast<uint8_t>(head[8] & 0xF);
        row.space = static_cast<uint8_t>(head[8] >> 4 & 0xF);
        row.request = wide(head[9], head[10]);
    }
};

} // namespace pasta

#endif
