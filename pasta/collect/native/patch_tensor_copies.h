/* What patches do with tensor copies (TMA), whose size follows from the tensor map that they name. */
#ifndef PASTA_PATCH_TENSOR_COPIES_H
#define PASTA_PATCH_TENSOR_COPIES_H

#include "memory_tensor_map.h"
#include "patch_records.h"

struct Position {
    int32_t of[5];
};

/* The part of a box that lies within its tensor. */
struct Part {
    uint64_t begin;
    uint64_t stride[5];
    uint32_t extent[5]; /* in elements */
    bool whole;         /* nothing of the box lies outside */

    DEVICE_METHOD Part(const TensorMap &map, const Position &at) : begin(map.address()), whole(true) {
#pragma unroll
        for (uint32_t dimension = 0; dimension < 5; ++dimension) {
            bool there = dimension < map.rank();
            int64_t first = there ? at.of[dimension] : 0, box = there ? map.box(dimension) : 1, size = there ? map.size(dimension) : 1;
            int64_t from = first < 0 ? 0 : first, to = first + box < size ? first + box : size;
            stride[dimension] = there ? map.stride(dimension) : 0;
            extent[dimension] = to > from ? static_cast<uint32_t>(to - from) : 0;
            begin += from * stride[dimension];
            whole = whole && extent[dimension] == box;
        }
    }

    DEVICE_METHOD uint32_t row_bytes() const { return extent[0] * static_cast<uint32_t>(stride[0]); }
    DEVICE_METHOD uint32_t bytes() const { return row_bytes() * extent[1] * extent[2] * extent[3] * extent[4]; }
};

/* Whether nobody has copied this whole box in this launch before; true also where there is no room to know. */
DEVICE bool is_new(Slot *slot, const TensorMap &map, uint64_t begin) {
    uint64_t place = box_place(slot->id, begin);
    uint64_t shape = map.words[2] * 0x9E3779B97F4A7C15ull + map.words[3] * 0xBF58476D1CE4E5B9ull + map.words[4] * 0x94D049BB133111EBull +
                     map.words[5] * 0xD6E8FEB86659FD93ull + map.words[6] * 0xA0761D6478BD642Full + map.words[7] * 0xE7037ED1A0B428DBull +
                     map.words[13] * 0x8EBC6AF09C88C6E3ull + map.words[14] * 0x589965CC75374CC3ull;
    uint64_t at = (place + shape) * 0x9E3779B97F4A7C15ull >> 32;
    for (uint32_t attempt = 0; attempt < BOX_TRIES; ++attempt) {
        Box *box = slot->boxes + (at + attempt) % BOXES;
        auto found = __ldcg(reinterpret_cast<const ulonglong2 *>(box));
        if (found.x == place && found.y == shape) return false;
        if (found.x != 0) continue;
        found.x = atomicCAS(reinterpret_cast<Count *>(&box->place), 0ull, static_cast<Count>(place));
        if (found.x == 0) box->shape = shape;
        if (found.x == 0 || found.x == place) return true;
    }
    return true;
}

/* Leaves by address, of which the last is at hand: boxes have many rows in a page. */
class LeafOfPage {
  public:
    DEVICE_METHOD explicit LeafOfPage(Slot *its_slot) : slot(its_slot) {}

    /* The leaf of an address that is read; null: there is none, and a page without room is marked as a whole. */
    DEVICE_METHOD uint32_t *of(uint64_t address) {
        if (address >> PAGE_SHIFT != page) {
            page = address >> PAGE_SHIFT;
            uint32_t number = page_number(slot, address), state = number == NO_PAGE ? UNTOUCHED : page_state(slot, number);
            if (state & WHOLE_PAGE) set_mark(&slot->pages[number], MARK_READ);
            leaf = number == NO_PAGE || state & WHOLE_PAGE ? nullptr : leaf_of(slot, state);
        }
        return leaf;
    }

  private:
    Slot *slot;
    uint64_t page = ~0ull;
    uint32_t *leaf = nullptr;
};

/* Mark a row as read, without a count. */
DEVICE void mark_row(Slot *slot, LeafOfPage &leaves, uint64_t address, uint32_t bytes) {
    uint64_t end = address + bytes;
    while (address < end) {
        uint32_t granule = granule_of(slot, address);
        if (uint32_t *leaf = leaves.of(address)) set_bits(&leaf[granule / GRANULES_OF_WORD], MARK_READ << granule % GRANULES_OF_WORD * 2);
        address = ((address >> slot->granule_shift) + 1) << slot->granule_shift;
    }
}

/* Mark all rows of a part. */
DEVICE void mark_part(Slot *slot, const Part &part) {
    LeafOfPage leaves(slot);
    uint64_t fifth = part.begin;
    for (uint32_t at4 = 0; at4 < part.extent[4]; ++at4, fifth += part.stride[4]) {
        uint64_t fourth = fifth;
        for (uint32_t at3 = 0; at3 < part.extent[3]; ++at3, fourth += part.stride[3]) {
            uint64_t third = fourth;
            for (uint32_t at2 = 0; at2 < part.extent[2]; ++at2, third += part.stride[2]) {
                uint64_t row = third;
                for (uint32_t at1 = 0; at1 < part.extent[1]; ++at1, row += part.stride[1]) mark_row(slot, leaves, row, part.row_bytes());
            }
        }
    }
}

constexpr uint32_t TILED = 0; /* SANITIZER_LOAD_TILED, which older headers lack */

/* One access, of which the first granule has the count. */
template <class Does>
DEVICE void load_tensor(void *data, uint32_t active, uint64_t pc, const TensorMap *named, const Position &at, uint32_t mode) {
    auto *slot = static_cast<Slot *>(data);
    active = leader_alone(active);
    if (!slot || !active) return;
    const TensorMap map = *named;
    if (mode != TILED || !slot->reads_tensor_maps || !map.is_plain()) return add(&slot->totals->unsized_tensor_loads, 1);
    const Part part(map, at);
    count_bulk<Does>(slot, pc, READ, part.bytes());
    if (part.bytes()) {
        bool is_known = page_number(slot, part.begin) != NO_PAGE;
        if (Does::counts || !is_known) mark<Does>(slot, part.begin, READ, 1);
        if (!part.whole || is_new(slot, map, part.begin)) mark_part(slot, part);
    }
    if (Does::records) record(slot, active, pc, GLOBAL << 4 | READ, part.begin, part.bytes());
}

#endif
