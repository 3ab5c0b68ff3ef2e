/* Stands for kernels: fills a ring of raw records for the tests of memory_records.h.
 *
 *     memory_records CHANNEL RECORDS rows|count [full]
 *
 * `count`: records are only counted; `full`: all lanes take part in each. Prints the accesses read,
 * the records missing, and how long the reading of them took, in ns. */
#include "../../../pasta/collect/native/memory_records.h"

#include <cstdio>
#include <memory>

using namespace pasta;

namespace {

void put(HeadPart &part, uint32_t first, uint32_t second, uint32_t third, uint32_t lap) {
    part.word[0] = first, part.word[1] = second, part.word[2] = third;
    __atomic_store_n(&part.lap, lap, __ATOMIC_RELEASE);
}

void put(LanePart &part, uint32_t distance, uint32_t lap) {
    __atomic_store_n(reinterpret_cast<uint64_t *>(&part), distance | static_cast<uint64_t>(lap) << 32, __ATOMIC_RELEASE);
}

void fill(Record &record, uint64_t n, bool full) {
    auto low = [](uint64_t value) { return static_cast<uint32_t>(value); };
    auto high = [](uint64_t value) { return static_cast<uint32_t>(value >> 32); };
    uint32_t lap = low(n >> RING_RECORDS_SHIFT) + 1;
    uint32_t lanes = full ? ~0u : low(n * 2654435761u) | 1u << n % 32;
    uint64_t base = 0x7F0000000000 + 128 * n, block = n % 5000 + ((n % 3) << 33);
    for (uint32_t lane = 0; lane < 32; ++lane)
        if (lanes >> lane & 1) put(record.lane[lane], 4 * lane - 1000 * low(n % 3), lap);
    put(record.head[3], low(n), high(n), 0, lap);
    put(record.head[2], low(block), high(block) << 8 | low(n % 32), low(n % 5 << 4 | n % 4), lap);
    put(record.head[1], low(base), high(base), 1u << n % 5, lap);
    put(record.head[0], lanes, low(n % 64 * 16), low(1 + n / 1000), lap);
}

} // namespace

int main(int count, char **arguments) {
    if (count < 4) return 2;
    const uint64_t records = std::strtoull(arguments[2], nullptr, 10);
    const bool wanted = !strcmp(arguments[3], "rows"), full = count > 4;
    auto ring = std::make_unique<Record[]>(RING_RECORDS);
    RingHost host{};
    uint64_t next = 0;
    while (next < std::min(records, RING_RECORDS)) fill(ring[next], next, full), ++next;
    uint64_t began = pasta_clock(CLOCK_MONOTONIC);
    RecordReader reader(arguments[1], 3, 1, ring.get(), &host, wanted);
    for (; next < records; ++next) {
        while (next >= host.tail + RING_RECORDS) usleep(50);
        fill(ring[next & (RING_RECORDS - 1)], next, full);
    }
    uint64_t missing = reader.finish(records, 60'000'000'000);
    std::printf("%llu %llu %llu\n", static_cast<unsigned long long>(reader.accesses.load()), static_cast<unsigned long long>(missing),
                static_cast<unsigned long long>(pasta_clock(CLOCK_MONOTONIC) - began));
}
