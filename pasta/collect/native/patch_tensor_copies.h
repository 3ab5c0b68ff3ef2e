/* What patches do with tensor copies (TMA), whose size follows from the tensor map that they name. */
#ifndef PASTA_PATCH_TENSOR_COPIES_H
#define PASTA_PATCH_TENSOR_COPIES_H

#include "memory_tensor_map.h"
#include "patch_records.h"

struct Position {
    int32_t of[5];
};

/* A position in memory: patches have some 20 registers, and most copies need theirs for other things. */
class SetAside {
  public:
    DEVICE_METHOD explicit SetAside(const Position &at) : of{at.of[0], at.of[1], at.of[2], at.of[3], at.of[4]} {}
    DEVICE_METHOD Position position() const { return {{of[0], of[1], of[2], of[3], of[4]}}; }

  private:
    volatile int32_t of[5];
};

/* The part of a box that lies within its tensor. */
struct Part {
    uint64_t begin;
    uint64_t stride[5];
    uint32_t extent[5]; /* in elements */

    DEVICE_METHOD Part(const TensorMap &map, const Position &at) : begin(map.address()) {
#pragma unroll
        for (uint32_t dimension = 0; dimension < 5; ++dimension) {
            bool there = dimension < map.rank();
            int64_t first = there ? at.of[dimension] : 0, box = there ? map.box(dimension) : 1, size = there ? map.size(dimension) : 1;
            int64_t from = first < 0 ? 0 : first, to = first + box < size ? first + box : size;
            stride[dimension] = there ? map.stride(dimension) : 0;
            extent[dimension] = to > from ? static_cast<uint32_t>(to - from) : 0;
            begin += from * stride[dimension];
        }
    }

    DEVICE_METHOD uint32_t row_bytes() const { return extent[0] * static_cast<uint32_t>(stride[0]); }
    DEVICE_METHOD uint32_t bytes() const { return row_bytes() * extent[1] * extent[2] * extent[3] * extent[4]; }
};

/* Factors of a BoxKey: odd, and otherwise as good as drawn by lot (SplitMix64). */
DEVICE constexpr uint64_t box_factor(uint32_t number) {
    uint64_t mixed = (number + 1) * 0x9E3779B97F4A7C15ull;
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9ull;
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBull;
    return (mixed ^ mixed >> 31) | 1;
}

/* Which box of which tensor a launch copies: a number of 64 bits, the sum of what tells it, each word times a factor
 * of its own. Boxes of one map that differ along one or two dimensions never have the same
 * (test_tensor_copies.py), and others by a chance of 2^-64. */
class BoxKey {
  public:
    /* Of a position only the first `rank` say anything. */
    DEVICE_METHOD BoxKey(const Slot *slot, const TensorMap *map, uint32_t rank, const Position &at) {
#pragma unroll
        for (uint32_t dimension = 0; dimension < 5; ++dimension) add_word(dimension < rank ? static_cast<uint32_t>(at.of[dimension]) : 0, dimension);
        add_word(static_cast<uint32_t>(reinterpret_cast<uint64_t>(slot)), 5);
        add_word(static_cast<uint32_t>(reinterpret_cast<uint64_t>(map)), 6);
    }

    /* Where it is kept: known before the map is read, so that both are fetched at once. */
    DEVICE_METHOD Box *place(const Slot *slot) const { return slot->boxes + (sum >> (64 - BOXES_SHIFT)); }

    /* The key, once the map is read: a kernel may write other words into one, so its address alone says nothing.
     * It is read by way of the multiprocessor's cache, which knows what its own threads write, by tensormap.replace
     * and cp_fenceproxy too, and what others do once a thread here has acquired that. A fence of the maps' proxy
     * by itself does not renew it: what one multiprocessor writes for another behind such a fence only may go unseen. */
    DEVICE_METHOD uint64_t with(const TensorMap *map) const {
        BoxKey key = *this;
#pragma unroll
        for (uint32_t pair = 0; pair < TensorMap::USED / 2 + 1; ++pair) {
            uint32_t words[2];
            read_words(map->words + 2 * pair, words);
            key.add_word(words[0], 7 + 2 * pair);
            if (2 * pair + 1 < TensorMap::USED) key.add_word(words[1], 8 + 2 * pair);
        }
        return key.sum;
    }

    DEVICE_METHOD uint64_t with(const TensorMap &map) const {
        BoxKey key = *this;
#pragma unroll
        for (uint32_t word = 0; word < TensorMap::USED; ++word) key.add_word(map.words[word], 7 + word);
        return key.sum;
    }

  private:
    uint64_t sum = 0;

    DEVICE_METHOD void add_word(uint32_t word, uint32_t number) { sum += word * box_factor(number); }
};

DEVICE TensorMap read_map(const TensorMap *from) {
    TensorMap map;
#pragma unroll
    for (uint32_t pair = 0; pair < 8; ++pair) {
        uint64_t words = read_now(reinterpret_cast<const uint64_t *>(from) + pair);
        map.words[2 * pair] = static_cast<uint32_t>(words);
        map.words[2 * pair + 1] = static_cast<uint32_t>(words >> 32);
    }
    return map;
}

/* The leaf of an address that is read; null: there is none, and a page without room for one is marked as a whole. */
DEVICE uint32_t *leaf_to_read(Slot *slot, uint64_t address) {
    uint32_t page = page_number(slot, address);
    if (page == NO_PAGE) return nullptr;
    uint32_t state = page_state(slot, page);
    if (!(state & WHOLE_PAGE)) return leaf_of(slot, state);
    set_mark(&slot->pages[page], MARK_READ);
    return nullptr;
}

/* Marks of what is read of one page, set a word at a time, as rows often share one. */
class ReadMarks {
  public:
    DEVICE_METHOD ReadMarks(uint32_t *its_leaf, uint32_t granule_shift) : leaf(its_leaf), shift(granule_shift) {}

    DEVICE_METHOD void add(uint32_t offset, uint32_t bytes) {
        uint32_t granule = offset >> shift;
        const uint32_t last = (offset + bytes - 1) >> shift;
        do {
            if (granule / GRANULES_OF_WORD != word) write();
            word = granule / GRANULES_OF_WORD;
            bits |= MARK_READ << granule % GRANULES_OF_WORD * 2;
        } while (++granule <= last);
    }

    DEVICE_METHOD void write() {
        if (bits) set_bits(leaf + word, bits);
        bits = 0;
    }

  private:
    uint32_t *leaf;
    uint32_t shift, word = 0, bits = 0;
};

/* Mark rows of `bytes` each: as many at once as lie in one page, or the piece of one that does. */
DEVICE void mark_rows(Slot *slot, uint64_t row, uint64_t stride, uint32_t bytes, uint32_t count) {
    const uint32_t step = stride < PAGE_BYTES ? static_cast<uint32_t>(stride) : PAGE_BYTES;
    uint32_t done = 0; /* bytes of the first row that is left */
    while (count) {
        const uint32_t offset = (row + done) % PAGE_BYTES, room = PAGE_BYTES - offset, left = bytes - done;
        const bool is_whole = !done && bytes <= room;
        const uint32_t fitting = is_whole && step ? (room - bytes) / step + 1 : is_whole ? count : 1;
        const uint32_t rows = fitting < count ? fitting : count, piece = left < room ? left : room;
        uint32_t *leaf = leaf_to_read(slot, row + done);
        ReadMarks marks(leaf, slot->granule_shift);
        for (uint32_t number = leaf ? 0 : rows; number < rows; ++number) marks.add(offset + number * step, piece);
        marks.write();
        done = done + piece < bytes ? done + piece : 0;
        if (done) continue;
        row += rows * stride;
        count -= rows;
    }
}

/* Mark a part that is not empty. */
DEVICE void mark_part(Slot *slot, const Part &part) {
    uint32_t at[5] = {};
    uint64_t rows = part.begin;
    for (uint32_t left = part.extent[2] * part.extent[3] * part.extent[4]; left; --left) {
        mark_rows(slot, rows, part.stride[1], part.row_bytes(), part.extent[1]);
#pragma unroll
        for (uint32_t dimension = 2; dimension < 5; ++dimension) {
            rows += part.stride[dimension];
            if (++at[dimension] < part.extent[dimension]) break;
            rows -= at[dimension] * part.stride[dimension];
            at[dimension] = 0;
        }
    }
}

/* What a copy of this part counts, as its box is kept. */
DEVICE Box counted(Slot *slot, const Part &part, uint64_t key) {
    Box box{key, part.bytes(), NO_COUNTER};
    if (!box.bytes) return box;
    uint32_t page = page_number(slot, part.begin);
    if (page == NO_PAGE) {
        box.bytes |= OUTSIDE_PAGES;
        return box;
    }
    uint32_t state = page_state(slot, page);
    if (state & WHOLE_PAGE) return box;
    box.counter = static_cast<uint32_t>(counter_of(slot, leaf_of(slot, state), granule_of(slot, part.begin), READ) - slot->leaves);
    return box;
}

/* Keep a box; false: another copy of it does so, and marks what it reads. */
DEVICE bool keep(Box *place, const Box &box) {
    uint64_t found = read_box(place).key;
    if (found == box.key || found == ~box.key) return false;
    uint64_t now = atomicCAS(reinterpret_cast<Count *>(&place->key), static_cast<Count>(found), static_cast<Count>(~box.key));
    if (now == box.key || now == ~box.key) return false;
    if (now == found) write_box(place, box);
    return true;
}

template <class Does> DEVICE void count_box(Slot *slot, uint64_t pc, const Box &box) {
    count_bulk<Does>(slot, pc, READ, box.bytes & ~OUTSIDE_PAGES);
    if (box.bytes & OUTSIDE_PAGES) add(&slot->totals->unknown[READ], 1);
    if (Does::counts && box.counter != NO_COUNTER) add(&slot->leaves[box.counter], 1u);
}

/* Look at a box that is not kept. It is marked behind keeping it, as marks are read after the launch. */
template <class Does> DEVICE void load_box(Slot *slot, uint32_t active, uint64_t pc, const TensorMap *named, const Position &at) {
    const TensorMap map = read_map(named);
    if (!slot->reads_tensor_maps || !map.is_plain()) return add(&slot->totals->unsized_tensor_loads, 1);
    const BoxKey key(slot, named, map.rank(), at);
    const Part part(map, at);
    const Box box = counted(slot, part, key.with(map));
    count_box<Does>(slot, pc, box);
    if (keep(key.place(slot), box) && part.bytes()) mark_part(slot, part);
    if (Does::records) record(slot, active, pc, GLOBAL << 4 | READ, part.begin, part.bytes());
}

constexpr uint32_t TILED = 0; /* SANITIZER_LOAD_TILED, which older headers lack */

/* One access, of which the first granule has the count. Most copies are of boxes that are kept. */
template <class Does>
DEVICE void load_tensor(void *data, uint32_t active, uint64_t pc, const TensorMap *named, const Position &at, uint32_t mode) {
    auto *slot = static_cast<Slot *>(data);
    active = leader_alone(active);
    if (!slot || !active) return;
    const SetAside put(at);
    uint32_t form[2];
    read_words(named->words + 2, form);
    const BoxKey key(slot, named, TensorMap::rank_of(form[0]), at);
    Box box{};
    if (!Does::records) box = read_box(key.place(slot));
    if (mode != TILED) return add(&slot->totals->unsized_tensor_loads, 1);
    if (!Does::records && box.key == key.with(named)) return count_box<Does>(slot, pc, box);
    load_box<Does>(slot, active, pc, named, put.position());
}

#endif
