/* The device code that marks what tensor copies read, run by the host, beside every element looked at by itself. */
#define PASTA_PATCH_RECORDS_H /* what it stands on is made here, without a device */
#include "memory_state.h"

#include <cstdio>
#include <map>
#include <random>
#include <set>
#include <vector>

using namespace pasta;

#define DEVICE static inline
#define DEVICE_METHOD inline

using Count = unsigned long long;
struct ulonglong2 {
    unsigned long long x, y;
};
struct Touch {
    static constexpr bool counts = false, records = false;
};
struct Counts {
    static constexpr bool counts = true, records = false;
};

namespace {

constexpr uint64_t FIRST_PAGE = 0x7f1200000000 >> PAGE_SHIFT, LAST_PAGE = FIRST_PAGE + (1u << 20);
std::map<uint32_t, std::vector<uint32_t>> leaves; /* by page */
bool has_room = true; /* for leaves */
uint64_t unknown = 0, counted = 0, copies = 0, copied_bytes = 0;

ulonglong2 __ldcg(const ulonglong2 *from) { return *from; }
Count atomicCAS(Count *at, Count expected, Count value) {
    Count found = *at;
    if (found == expected) *at = value;
    return found;
}
void add(uint64_t *counter, uint64_t by) { *counter += by; }
void set_bits(uint32_t *word, uint32_t bits) { *word |= bits; }
void set_mark(uint32_t *word, uint32_t mark) { *word |= mark; }
uint32_t leader_alone(uint32_t lanes) { return lanes; }
uint32_t page_number(const Slot *, uint64_t address) {
    uint64_t page = address >> PAGE_SHIFT;
    return page < FIRST_PAGE || page >= LAST_PAGE ? NO_PAGE : static_cast<uint32_t>(page - FIRST_PAGE);
}
uint32_t page_state(Slot *, uint32_t page) {
    if (!has_room) return WHOLE_PAGE;
    leaves[page].resize(mark_words(5));
    return page + LEAF;
}
uint32_t *leaf_of(const Slot *, uint32_t state) { return leaves[state - LEAF].data(); }
uint32_t granule_of(const Slot *slot, uint64_t address) { return (address & (PAGE_BYTES - 1)) >> slot->granule_shift; }
template <class Does> void mark(Slot *slot, uint64_t address, Kind, uint32_t accesses) {
    uint32_t page = page_number(slot, address), granule = granule_of(slot, address);
    if (page == NO_PAGE) {
        unknown += accesses;
        return;
    }
    counted += accesses;
    leaf_of(slot, page_state(slot, page))[granule / GRANULES_OF_WORD] |= MARK_READ << granule % GRANULES_OF_WORD * 2;
}
template <class Does> void count_bulk(Slot *, uint64_t, Kind, uint32_t bytes) { ++copies, copied_bytes += bytes; }
void record(Slot *, uint32_t, uint64_t, uint32_t, uint64_t, uint32_t) {}

} // namespace

#include "patch_tensor_copies.h"

namespace {

std::mt19937_64 generator(1);
int64_t between(int64_t least, int64_t most) { return least + static_cast<int64_t>(generator() % (most - least + 1)); }

struct Tensor {
    TensorMap map{};
    uint64_t stride[5] = {};
    int64_t size[5] = {1, 1, 1, 1, 1}, box[5] = {1, 1, 1, 1, 1};
    uint32_t rank, element;

    Tensor() : rank(static_cast<uint32_t>(between(1, 5))) {
        static constexpr uint32_t shift[] = {0, 1, 2, 2, 3, 3, 1, 2, 2, 3, 1};
        auto type = static_cast<uint32_t>(between(0, 10));
        element = 1u << shift[type];
        uint64_t address = 0x7f1200000000 + between(0, 1 << 22) * 16;
        map.words[0] = static_cast<uint32_t>(address);
        map.words[1] = static_cast<uint32_t>(address >> 32);
        map.words[2] = (rank - 1) << 4 | type << 7;
        for (uint32_t dimension = 0; dimension < rank; ++dimension) add_dimension(dimension);
    }

    void add_dimension(uint32_t dimension) {
        size[dimension] = between(1, 40);
        box[dimension] = between(1, dimension < 2 ? 24 : 4);
        uint64_t before = dimension ? stride[dimension - 1] * size[dimension - 1] : 0;
        stride[dimension] = dimension ? (before + 15) / 16 * 16 + 16 * between(0, 100) : element;
        map.words[8 + dimension] = static_cast<uint32_t>(size[dimension] - 1);
        if (dimension == 0) {
            map.words[13] = static_cast<uint32_t>(box[0] - 1) << 24;
            return;
        }
        map.words[2 + dimension] = static_cast<uint32_t>(stride[dimension] >> 4);
        map.words[7] |= static_cast<uint32_t>(stride[dimension] >> 36) << 4 * (dimension - 1);
        map.words[14] |= static_cast<uint32_t>(box[dimension] - 1) << 8 * (dimension - 1);
    }

    /* The granules that a copy reads, element by element; and its bytes. */
    uint64_t read(const Position &at, uint32_t granule_shift, std::set<uint64_t> &granules) const {
        int64_t elements = box[0] * box[1] * box[2] * box[3] * box[4];
        uint64_t bytes = 0;
        for (int64_t number = 0; number < elements; ++number) {
            uint64_t address = map.address();
            bool inside = true;
            int64_t rest = number;
            for (uint32_t dimension = 0; dimension < 5; ++dimension) {
                int64_t place = at.of[dimension] * (dimension < rank) + rest % box[dimension];
                inside = inside && place >= 0 && place < size[dimension];
                address += place * stride[dimension];
                rest /= box[dimension];
            }
            if (!inside) continue;
            bytes += element;
            granules.insert(address >> granule_shift);
        }
        return bytes;
    }
};

std::set<uint64_t> marked(uint32_t granule_shift) {
    std::set<uint64_t> found;
    for (auto &[page, words] : leaves)
        for (uint64_t granule = 0; granule < PAGE_BYTES >> granule_shift; ++granule)
            if (words[granule / GRANULES_OF_WORD] >> granule % GRANULES_OF_WORD * 2 & MARK_READ)
                found.insert(((FIRST_PAGE + page) << PAGE_SHIFT >> granule_shift) + granule);
    return found;
}

template <class Does> int wrong_of(Slot &slot) {
    int wrong = 0;
    for (uint32_t turn = 0; turn < 1000; ++turn) {
        Tensor tensor;
        slot.granule_shift = static_cast<uint32_t>(between(5, 12));
        slot.id = turn % 128;
        leaves.clear();
        std::fill_n(slot.boxes, BOXES, Box{});
        if (turn % 10 == 0) std::fill_n(slot.boxes, BOXES, Box{~0ull, 0}); /* no room */
        copies = copied_bytes = counted = 0;
        uint64_t bytes = 0, reading = 0;
        std::set<uint64_t> expected;
        Position at{};
        for (uint32_t copy = 0; copy < 6; ++copy) {
            for (uint32_t dimension = 0; dimension < 5 && copy != 5; ++dimension) /* the last comes twice */
                at.of[dimension] = static_cast<int32_t>(copy < 3 ? between(-26, 44) : between(0, std::max<int64_t>(0, tensor.size[dimension] - tensor.box[dimension])));
            uint64_t read = tensor.read(at, slot.granule_shift, expected);
            bytes += read;
            reading += read != 0;
            load_tensor<Does>(&slot, 1, 0, &tensor.map, at, TILED);
        }
        wrong += marked(slot.granule_shift) != expected || copied_bytes != bytes || copies != 6;
        wrong += counted != (Does::counts ? reading : 0);
    }
    return wrong;
}

/* Without room for leaves, a page bears the mark itself. */
int wrong_pages(Slot &slot) {
    static uint32_t pages[LAST_PAGE - FIRST_PAGE];
    int wrong = 0;
    has_room = false;
    slot.pages = pages;
    for (uint32_t turn = 0; turn < 20; ++turn) {
        Tensor tensor;
        std::fill_n(slot.boxes, BOXES, Box{});
        std::fill(std::begin(pages), std::end(pages), 0);
        std::set<uint64_t> expected, found;
        tensor.read(Position{}, PAGE_SHIFT, expected);
        load_tensor<Touch>(&slot, 1, 0, &tensor.map, Position{}, TILED);
        for (uint64_t page = 0; page < std::size(pages); ++page)
            if (pages[page] & MARK_READ) found.insert(FIRST_PAGE + page);
        wrong += found != expected;
    }
    has_room = true;
    return wrong;
}

} // namespace

int main() {
    static Box boxes[BOXES];
    Totals totals{};
    Slot slot{};
    slot.totals = &totals;
    slot.boxes = boxes;
    slot.reads_tensor_maps = 1;
    std::printf("touch: %d wrong\n", wrong_of<Touch>(slot));
    std::printf("counts: %d wrong\n", wrong_of<Counts>(slot));
    std::printf("whole pages: %d wrong\n", wrong_pages(slot));

    Tensor elsewhere;
    elsewhere.map.words[1] = 0x1234;
    load_tensor<Touch>(&slot, 1, 0, &elsewhere.map, Position{}, TILED);
    load_tensor<Counts>(&slot, 1, 0, &elsewhere.map, Position{}, TILED);
    std::printf("in memory without a page: %d\n", static_cast<int>(unknown));
    load_tensor<Touch>(&slot, 1, 0, &elsewhere.map, Position{}, TILED + 1);
    slot.reads_tensor_maps = 0;
    load_tensor<Touch>(&slot, 1, 0, &elsewhere.map, Position{}, TILED);
    std::printf("not sized: %d\n", static_cast<int>(totals.unsized_tensor_loads));
}
