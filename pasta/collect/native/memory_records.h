/* Reading raw records out of the ring that kernels fill, on a thread of its own. */
#ifndef PASTA_MEMORY_RECORDS_H
#define PASTA_MEMORY_RECORDS_H

#include "memory_rows.h"

#include <emmintrin.h>

#include <array>
#include <atomic>
#include <thread>

namespace pasta {

class RecordReader {
  public:
    std::atomic<uint64_t> accesses{0};

    RecordReader(const char *folder, int32_t rank, int32_t its_device, const Record *ring_of_records, RingHost *ring_host, bool rows_wanted)
        : ring(folder, rank, RING_PATIENCE), device(its_device), records(ring_of_records), host(ring_host), wanted(rows_wanted),
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
    static constexpr uint64_t TOGETHER = 256; /* records between looks at the clock, and tellings of the tail */
    Ring ring;
    const int32_t device;
    const Record *records;
    RingHost *host;
    const bool wanted;
    uint64_t tail = 0;
    std::atomic<uint64_t> last{NOT_YET}, until{0};
    Table<int32_t, uint64_t, uint64_t, uint8_t, uint32_t, uint64_t, uint32_t, uint8_t, uint8_t, uint32_t, uint64_t> rows{
        "access", "device", "launch_id", "request", "lane", "pc", "address", "bytes", "op", "space", "warp", "block"};
    std::thread thread; /* last, as it uses all the above */

    using Words = std::array<uint32_t, 3>;

    void run() {
        for (;;) {
            uint64_t read = 0;
            while (read < TOGETHER && take()) ++read;
            if (read) {
                host->tail = tail;
                continue;
            }
            rows.write(ring);
            uint64_t end = last.load();
            if (end != NOT_YET && (tail >= end || pasta_clock(CLOCK_MONOTONIC) > until.load())) return;
            usleep(20);
        }
    }

    uint32_t lap() const { return static_cast<uint32_t>(tail >> RING_RECORDS_SHIFT) + 1; }

    /* A part is written at once, and says in which lap. */
    bool read(const HeadPart &part, Words &words) const {
        alignas(16) uint32_t value[4];
        _mm_store_si128(reinterpret_cast<__m128i *>(value), _mm_load_si128(reinterpret_cast<const __m128i *>(&part)));
        std::atomic_signal_fence(std::memory_order_seq_cst);
        words = {value[0], value[1], value[2]};
        return value[3] == lap();
    }

    bool read(const LanePart &part, uint32_t &distance) const {
        uint64_t value = __atomic_load_n(reinterpret_cast<const uint64_t *>(&part), __ATOMIC_RELAXED);
        distance = static_cast<uint32_t>(value);
        return value >> 32 == lap();
    }

    bool take() {
        const Record &record = records[tail & (RING_RECORDS - 1)];
        Words first, second, third, fourth;
        if (!read(record.head[0], first) || !read(record.head[1], second) || !read(record.head[2], third) || !read(record.head[3], fourth))
            return false;
        uint32_t distances[32];
        for (uint32_t left = first[0]; left; left &= left - 1) {
            auto lane = static_cast<uint32_t>(__builtin_ctz(left));
            if (!read(record.lane[lane], distances[lane])) return false;
        }
        accesses.store(accesses.load(std::memory_order_relaxed) + static_cast<uint64_t>(__builtin_popcount(first[0])), std::memory_order_relaxed);
        if (wanted) write(first, second, third, fourth, distances);
        ++tail;
        return true;
    }

    void write(const Words &first, const Words &second, const Words &third, const Words &fourth, const uint32_t *distances) {
        uint32_t what = third[2];
        uint64_t base = second[0] | static_cast<uint64_t>(second[1]) << 32;
        uint64_t block = third[0] | static_cast<uint64_t>(third[1] >> 8) << 32;
        uint64_t request = fourth[0] | static_cast<uint64_t>(fourth[1]) << 32;
        for (uint32_t left = first[0]; left; left &= left - 1) {
            auto lane = static_cast<uint32_t>(__builtin_ctz(left));
            uint64_t address = base + static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(distances[lane])));
            rows.add(ring, device, first[2], request, static_cast<uint8_t>(lane), first[1], address, second[2],
                     static_cast<uint8_t>(what & 0xF), static_cast<uint8_t>(what >> 4 & 0xF), third[1] & 0xFF, block);
        }
    }
};

} // namespace pasta

#endif
