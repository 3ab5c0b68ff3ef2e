/* What patches do at level `access`: each access becomes a record in a ring that the host reads. */
#ifndef PASTA_PATCH_RECORDS_H
#define PASTA_PATCH_RECORDS_H

#include "patch_marks.h"

DEVICE uint64_t block_of_grid() {
    return (static_cast<uint64_t>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
}

DEVICE uint32_t warp_of_block() { return ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) / 32; }

/* Wait until the reader has freed the record's place; false: it does not come, or never will. */
DEVICE bool has_place(Slot *slot, uint64_t record) {
    RingControl *ring = slot->ring;
    if (*reinterpret_cast<volatile uint32_t *>(&ring->dead)) return false;
    if (record < *reinterpret_cast<volatile uint64_t *>(&ring->known_tail) + RING_RECORDS) return true;
    add(&ring->waits, 1);
    uint64_t last_tail = 0;
    for (uint32_t attempt = 0; attempt < RING_TRIES; ++attempt) {
        uint64_t tail = slot->ring_host->tail;
        *reinterpret_cast<volatile uint64_t *>(&ring->known_tail) = tail;
        if (record < tail + RING_RECORDS) return true;
        if (tail != last_tail) attempt = 0; /* the reader is slow, but moves */
        last_tail = tail;
        if (slot->ring_host->dead) break;
        __nanosleep(2000);
    }
    *reinterpret_cast<volatile uint32_t *>(&ring->dead) = 1;
    return false;
}

DEVICE void put(HeadPart *part, uint32_t first, uint32_t second, uint32_t third, uint32_t lap) {
    *reinterpret_cast<uint4 *>(part) = make_uint4(first, second, third, lap);
}

DEVICE void put_head(const Slot *slot, Record *record, uint32_t lanes, uint32_t offset, uint64_t base, uint32_t bytes,
                     uint32_t what, uint64_t request, uint32_t lap) {
    put(&record->head[0], lanes, offset, slot->launch, lap);
    put(&record->head[1], static_cast<uint32_t>(base), static_cast<uint32_t>(base >> 32), bytes, lap);
    uint64_t block = block_of_grid();
    put(&record->head[2], static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32) << 8 | warp_of_block(), what, lap);
    put(&record->head[3], static_cast<uint32_t>(request), static_cast<uint32_t>(request >> 32), 0, lap);
}

/* As the table `access` has them: 3 stands for generic accesses, which are resolved here. */
DEVICE uint32_t code_of(Space space) { return space == REMOTE_SHARED ? 4 : space; }

/* Take the next record of the ring; called by one lane for `accesses`. */
DEVICE uint64_t take_record(Slot *slot, uint32_t accesses) {
    uint64_t place = atomicAdd(reinterpret_cast<Count *>(&slot->ring->head), 1ull);
    if (has_place(slot, place)) return place;
    add(&slot->ring->dropped_accesses, accesses);
    return NO_RECORD;
}

/* Record one access of each active lane; those whose addresses are far apart in records of their own. */
DEVICE void record(Slot *slot, uint32_t active, uint64_t pc, uint32_t what, uint64_t address, uint32_t bytes) {
    if (slot->some_blocks) {
        uint64_t block = block_of_grid();
        if (block < slot->first_block || block > slot->last_block) return;
    }
    uint32_t left = active;
    uint64_t request = NO_RECORD; /* the place of the first record of this access */
    do {
        uint64_t base = __shfl_sync(active, address, __ffs(left) - 1);
        auto distance = static_cast<int64_t>(address - base);
        uint32_t lanes = left & __ballot_sync(active, distance == static_cast<int32_t>(distance));
        bool leader = leads(left, lane_of_warp());
        left &= ~lanes;
        uint64_t place = leader ? take_record(slot, __popc(lanes)) : 0;
        place = __shfl_sync(active, place, __ffs(lanes) - 1);
        if (request == NO_RECORD) request = place;
        if (place == NO_RECORD || !(lanes >> lane_of_warp() & 1)) continue;
        uint32_t lap = static_cast<uint32_t>(place >> RING_RECORDS_SHIFT) + 1;
        Record *mine = slot->records + (place & (RING_RECORDS - 1));
        *reinterpret_cast<uint2 *>(&mine->lane[lane_of_warp()]) = make_uint2(static_cast<uint32_t>(distance), lap);
        if (leader) put_head(slot, mine, lanes, static_cast<uint32_t>(pc - slot->code), base, bytes, what, request, lap);
    } while (left);
}

#endif
