/* What patches do with an access: it is counted, and what it touches is marked.
 *
 * Lanes that hit the same granule are merged before memory is touched, and a mark is tested before it is
 * set, so that most calls only read. */
#ifndef PASTA_PATCH_MARKS_H
#define PASTA_PATCH_MARKS_H

#include "patch_device.h"

DEVICE bool leads(uint32_t lanes, uint32_t lane) { return lane == __ffs(lanes) - 1; }

/* The first lane alone, for it; no lane, for others. Bulk and tensor copies are made once for the warp,
 * whichever lanes are at them. */
DEVICE uint32_t leader_alone(uint32_t lanes) { return leads(lanes, lane_of_warp()) ? 1u << lane_of_warp() : 0; }

DEVICE uint32_t marks_of(Kind kind) { return kind == READ ? MARK_READ : kind == WRITE ? MARK_WRITTEN : MARK_READ | MARK_WRITTEN; }

DEVICE uint32_t size_class(uint32_t bytes) {
    return __popc(bytes) == 1 && bytes <= 16 ? 31 - __clz(bytes) : OTHER_SIZE;
}

/* Count what happened to an instruction of this launch; called by one lane. */
DEVICE void tally(Slot *slot, uint64_t pc, uint32_t event, uint32_t by) {
    uint64_t key = tally_key(slot->id, event, pc - slot->code);
    uint32_t place = static_cast<uint32_t>(key ^ key >> 40) * 0x9E3779B9u >> 16;
    for (uint32_t attempt = 0; attempt < TALLY_TRIES; ++attempt, ++place) {
        Tally *entry = slot->tallies + place % TALLIES;
        uint64_t found = __ldcg(reinterpret_cast<const Count *>(&entry->key));
        if (found == 0) found = atomicCAS(reinterpret_cast<Count *>(&entry->key), 0ull, static_cast<Count>(key));
        if (found == 0 || found == key) return add(&entry->count, by);
    }
    add(&slot->bank->tallies_lost, 1u);
}

/* What a patch does beside marking: each costs registers, of which patches have few. */
struct Touch {
    static constexpr bool counts = false, tallies = false, records = false;
};
struct Counts {
    static constexpr bool counts = true, tallies = false, records = false;
};
struct Instructions {
    static constexpr bool counts = true, tallies = true, records = false;
};
struct Access {
    static constexpr bool counts = true, tallies = false, records = true;
};

template <class Does> DEVICE void count_global(Slot *slot, uint64_t pc, Kind kind, uint32_t bytes, uint32_t accesses) {
    uint32_t size = size_class(bytes);
    add(&slot->totals->global[multiprocessor() % SHARDS][kind][size], accesses);
    if (Does::tallies) tally(slot, pc, 1 + kind * SIZES + size, accesses);
}

/* One access of a size of its own. */
template <class Does> DEVICE void count_bulk(Slot *slot, uint64_t pc, Kind kind, uint32_t bytes) {
    Totals *totals = slot->totals;
    add(&totals->global[0][kind][OTHER_SIZE], 1);
    add(&totals->other_bytes[GLOBAL][kind], bytes);
    if (Does::tallies) tally(slot, pc, 1 + kind * SIZES + OTHER_SIZE, 1);
}

DEVICE void count_near(Slot *slot, Space space, Kind kind, uint32_t bytes, uint32_t accesses) {
    uint32_t size = size_class(bytes);
    add(&slot->totals->near[space][kind][size], accesses);
    if (size == OTHER_SIZE) add(&slot->totals->other_bytes[space][kind], static_cast<uint64_t>(bytes) * accesses);
}

DEVICE uint32_t page_number(const Slot *slot, uint64_t address) {
    uint64_t chunk_of_space = address >> CHUNK_SHIFT;
    if (chunk_of_space >= CHUNKS_OF_SPACE) return NO_PAGE;
    uint16_t chunk = __ldg(&slot->chunk_of[chunk_of_space]);
    if (chunk == NO_CHUNK) return NO_PAGE;
    uint32_t page = __ldg(&slot->page_of[chunk * CHUNK_PAGES + (address >> PAGE_SHIFT) % CHUNK_PAGES]);
    return page < slot->page_count ? page : NO_PAGE;
}

/* Take a leaf for a page; without one left, the page itself bears the marks. */
DEVICE uint32_t make_leaf(Slot *slot, uint32_t page) {
    uint32_t leaf = atomicAdd(&slot->bank->leaves, 1u);
    uint32_t state = WHOLE_PAGE;
    if (leaf < slot->leaf_count) {
        uint32_t *owner = slot->leaves + static_cast<uint64_t>(leaf) * slot->leaf_words;
        owner[0] = slot->id;
        owner[1] = page;
        state = leaf + LEAF;
    } else {
        add(&slot->totals->without_leaf, 1);
    }
    __threadfence();
    atomicExch(&slot->pages[page], state);
    return state;
}

DEVICE uint32_t page_state(Slot *slot, uint32_t page) {
    uint32_t *word = &slot->pages[page];
    uint32_t state = *word; /* once there is a leaf it stays, so an old copy of it is as good */
    if (state > BEING_MADE) return state;
    state = atomicCAS(word, UNTOUCHED, BEING_MADE);
    if (state == UNTOUCHED) return make_leaf(slot, page);
    while (state == BEING_MADE) state = *static_cast<volatile uint32_t *>(word);
    return state;
}

DEVICE void set_mark(uint32_t *word, uint32_t mark) {
    if ((__ldcg(word) & mark) != mark) set_bits(word, mark);
}

DEVICE uint32_t *leaf_of(const Slot *slot, uint32_t state) {
    return slot->leaves + static_cast<uint64_t>(state - LEAF) * slot->leaf_words + OWNER_WORDS;
}

DEVICE uint32_t granule_of(const Slot *slot, uint64_t address) {
    return (static_cast<uint32_t>(address) & ((1u << PAGE_SHIFT) - 1)) >> slot->granule_shift;
}

/* What counts accesses of one kind to the granule at `address`, at levels that count. */
DEVICE uint32_t *counter_of(const Slot *slot, uint32_t *leaf, uint32_t granule, Kind kind) {
    return leaf + mark_words(slot->granule_shift) + granule * KINDS + kind;
}

/* Note in its leaf that `accesses` of one kind hit the granule at `address`. */
template <class Does> DEVICE void mark(Slot *slot, uint64_t address, Kind kind, uint32_t accesses) {
    uint32_t page = page_number(slot, address);
    if (page == NO_PAGE) return add(&slot->totals->unknown[kind], accesses);
    uint32_t state = page_state(slot, page);
    uint32_t marks = marks_of(kind);
    if (state & WHOLE_PAGE) return set_mark(&slot->pages[page], marks);
    uint32_t *leaf = leaf_of(slot, state), granule = granule_of(slot, address);
    set_mark(&leaf[granule / GRANULES_OF_WORD], marks << granule % GRANULES_OF_WORD * 2);
    if (Does::counts) add(counter_of(slot, leaf, granule, kind), accesses);
}

/* Touch one address a lane, none across granules. */
template <class Does>
DEVICE void touch(Slot *slot, uint32_t active, uint64_t pc, uint64_t address, Kind kind, uint32_t bytes) {
    uint32_t lane = lane_of_warp();
    if (leads(active, lane)) count_global<Does>(slot, pc, kind, bytes, __popc(active));
    uint32_t same = __match_any_sync(active, address >> slot->granule_shift);
    if (leads(same, lane)) mark<Does>(slot, address, kind, __popc(same));
}

/* Touch a range of bytes for each lane: one access, of which the first granule has the count. */
template <class Does> DEVICE void touch_range(Slot *slot, uint64_t address, Kind kind, uint32_t bytes, uint32_t accesses) {
    uint64_t end = address + bytes;
    while (address < end) {
        mark<Does>(slot, address, kind, accesses);
        accesses = 0;
        address = ((address >> slot->granule_shift) + 1) << slot->granule_shift;
    }
}

#endif
