/* The device code that marks what tensor copies read, run by threads of the host, beside every element looked at by itself.
 *
 * With an argument: the factors of a key's coordinates. */
#define PASTA_PATCH_DEVICE_H /* what it stands on is made here, without a device */
#define PASTA_PATCH_RECORDS_H
#include "memory_state.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

using namespace pasta;

#define DEVICE static inline
#define DEVICE_METHOD inline

using Count = unsigned long long;

namespace {

thread_local uint32_t lane = 0;
std::mutex boxes_lock; /* the device reads and writes a box as one */
std::atomic<uint64_t> records{0}, looks{0};
Count taken_by = 0; /* another copy claims a box's place just before this one does */

uint32_t lane_of_warp() { return lane; }
uint32_t multiprocessor() { return 3; }
template <class Number> Number __ldg(const Number *from) { return *from; }
template <class Number> Number __ldcg(const Number *from) { return std::atomic_ref(*const_cast<Number *>(from)).load(); }
uint32_t __popc(uint32_t bits) { return static_cast<uint32_t>(std::popcount(bits)); }
uint32_t __clz(uint32_t bits) { return static_cast<uint32_t>(std::countl_zero(bits)); }
uint32_t __ffs(uint32_t bits) { return bits ? static_cast<uint32_t>(std::countr_zero(bits)) + 1 : 0; }
uint32_t __match_any_sync(uint32_t active, uint64_t) { return active; }
void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
uint32_t atomicAdd(uint32_t *at, uint32_t by) { return std::atomic_ref(*at).fetch_add(by); }
uint32_t atomicExch(uint32_t *at, uint32_t value) { return std::atomic_ref(*at).exchange(value); }
uint32_t atomicCAS(uint32_t *at, uint32_t expected, uint32_t value) {
    std::atomic_ref(*at).compare_exchange_strong(expected, value);
    return expected;
}
Count atomicCAS(Count *at, Count expected, Count value) {
    std::lock_guard<std::mutex> guard(boxes_lock);
    if (taken_by) *at = taken_by;
    Count found = *at;
    if (found == expected) *at = value;
    return found;
}
void add(uint64_t *counter, uint64_t by) { std::atomic_ref(*counter).fetch_add(by); }
void add(uint32_t *counter, uint32_t by) { std::atomic_ref(*counter).fetch_add(by); }
void set_bits(uint32_t *word, uint32_t bits) { std::atomic_ref(*word).fetch_or(bits); }
Box read_box(const Box *from) {
    std::lock_guard<std::mutex> guard(boxes_lock);
    return *from;
}
void write_box(Box *to, const Box &box) {
    std::lock_guard<std::mutex> guard(boxes_lock);
    *to = box;
}
void read_words(const uint32_t *from, uint32_t (&words)[2]) { std::memcpy(words, from, sizeof(words)); }
uint64_t read_now(const uint64_t *from) { return ++looks, *from; }
void record(Slot *, uint32_t, uint64_t, uint32_t, uint64_t, uint32_t) { ++records; }

} // namespace

#include "patch_marks.h"

#include "patch_tensor_copies.h"

namespace {

std::mt19937_64 generator(1);
int64_t between(int64_t least, int64_t most) { return least + static_cast<int64_t>(generator() % (most - least + 1)); }
bool once_in(int64_t times) { return between(1, times) == 1; }

struct Tensor {
    TensorMap map{};
    uint64_t stride[5] = {};
    int64_t size[5] = {1, 1, 1, 1, 1}, box[5] = {1, 1, 1, 1, 1};
    uint32_t rank, element;

    Tensor() : rank(static_cast<uint32_t>(between(1, 5))) {
        static constexpr uint32_t shift[] = {0, 1, 2, 2, 3, 3, 1, 2, 2, 3, 1};
        auto type = static_cast<uint32_t>(between(0, 10));
        element = 1u << shift[type];
        map.words[2] = (rank - 1) << 4 | type << 7;
        begin_at(0x7f1200000000 + (once_in(3) ? PAGE_BYTES - 16 * between(0, 20) : 16 * between(0, 1 << 18)));
        for (uint32_t dimension = 0; dimension < rank; ++dimension) {
            set_size(dimension, between(1, 40));
            set_box(dimension, between(1, dimension < 2 ? 16 : 3));
            uint64_t before = dimension ? stride[dimension - 1] * size[dimension - 1] : 0;
            set_stride(dimension, dimension ? (before + 15) / 16 * 16 + 16 * between(0, 100) : element);
        }
    }

    void begin_at(uint64_t address) {
        map.words[0] = static_cast<uint32_t>(address);
        map.words[1] = static_cast<uint32_t>(address >> 32);
    }
    void set_size(uint32_t dimension, int64_t elements) {
        size[dimension] = elements;
        map.words[8 + dimension] = static_cast<uint32_t>(elements - 1);
    }
    void set_box(uint32_t dimension, int64_t elements) {
        box[dimension] = elements;
        uint32_t &word = map.words[dimension ? 14 : 13], shift = dimension ? 8 * (dimension - 1) : 24;
        word = (word & ~(255u << shift)) | static_cast<uint32_t>(elements - 1) << shift;
    }
    void set_stride(uint32_t dimension, uint64_t bytes) {
        stride[dimension] = bytes;
        if (dimension == 0) return;
        uint32_t shift = 4 * (dimension - 1);
        map.words[2 + dimension] = static_cast<uint32_t>(bytes >> 4);
        map.words[7] = (map.words[7] & ~(15u << shift)) | static_cast<uint32_t>(bytes >> 36) << shift;
    }

    /* Say one thing otherwise, as kernels do that write into a map. */
    void change() {
        auto dimension = static_cast<uint32_t>(between(0, rank - 1));
        switch (between(0, 3)) {
        case 0: return begin_at(map.address() + 16 * between(1, 4096));
        case 1: return set_size(dimension, between(1, 40));
        case 2: return set_box(dimension, between(1, 3));
        default: if (dimension) set_stride(dimension, stride[dimension] + 16 * between(1, 40));
        }
    }

    /* Visit each element that a copy reads, by its address. */
    template <class Visit> void read(const Position &at, Visit visit) const {
        for (int64_t number = 0; number < box[0] * box[1] * box[2] * box[3] * box[4]; ++number) {
            uint64_t address = map.address();
            bool inside = true;
            int64_t rest = number;
            for (uint32_t dimension = 0; dimension < rank; ++dimension) {
                int64_t place = at.of[dimension] + rest % box[dimension];
                inside = inside && place >= 0 && place < size[dimension];
                address += place * stride[dimension];
                rest /= box[dimension];
            }
            if (inside) visit(address);
        }
    }
};

/* A bank of the device, and what a launch of each of its slots has to leave there. */
class Launches {
  public:
    static constexpr uint32_t SLOTS = 3, PAGES = 1u << 14, NUMBERED_CHUNKS = 4;

    Launches(uint32_t granule_shift, bool counted, uint32_t leaf_count)
        : pages(SLOTS * PAGES), boxes(BOXES), totals(SLOTS), slots(SLOTS), expected(SLOTS) {
        for (uint32_t chunk = 0; chunk < NUMBERED_CHUNKS; ++chunk) chunk_of[FIRST_CHUNK + chunk] = static_cast<uint16_t>(chunk);
        uint32_t leaf_words = OWNER_WORDS + mark_words(granule_shift) + (counted ? counter_words(granule_shift) : 0);
        leaves.resize(static_cast<size_t>(leaf_count) * leaf_words);
        for (uint32_t id = 0; id < SLOTS; ++id) {
            Slot &slot = slots[id];
            slot.chunk_of = chunk_of.data(), slot.page_of = page_of.data(), slot.pages = pages.data() + id * PAGES;
            slot.totals = &totals[id], slot.bank = &control, slot.leaves = leaves.data(), slot.boxes = boxes.data();
            slot.tallies = tallies.data();
            slot.id = id, slot.page_count = PAGES, slot.leaf_count = leaf_count, slot.leaf_words = leaf_words;
            slot.granule_shift = granule_shift, slot.reads_tensor_maps = 1;
        }
    }

    Slot *slot(uint32_t id) { return &slots[id]; }
    Box *box(uint64_t number) { return &boxes[number]; }

    /* A copy is going to be made; some pages that it reads get a number. */
    void expect(uint32_t id, const Tensor &tensor, const Position &at, bool sized) {
        Expected &launch = expected[id];
        if (!sized) {
            ++launch.unsized;
            return;
        }
        uint64_t first = 0, last = ~0ull;
        tensor.read(at, [&](uint64_t address) {
            uint64_t granule = address >> slots[id].granule_shift;
            if (!first) first = address;
            launch.bytes += tensor.element;
            if (granule == last) return;
            last = granule;
            number(address >> PAGE_SHIFT);
            if (numbered(address >> PAGE_SHIFT)) launch.read[address >> PAGE_SHIFT].insert(granule);
        });
        ++launch.copies;
        if (!first) return;
        if (numbered(first >> PAGE_SHIFT)) ++launch.counts[first >> slots[id].granule_shift];
        else ++launch.unknown;
    }

    int wrong(bool counted, bool tallied = false) const {
        int wrong = 0;
        for (uint32_t id = 0; id < SLOTS; ++id) {
            const Expected &launch = expected[id];
            const Totals &found = totals[id];
            wrong += found.global[0][READ][OTHER_SIZE] != launch.copies;
            wrong += found.other_bytes[GLOBAL][READ] != launch.bytes;
            wrong += found.unknown[READ] != launch.unknown;
            wrong += found.unsized_tensor_loads != launch.unsized;
            wrong += wrong_pages(slots[id], launch, counted);
            uint64_t ran = 0;
            for (const Tally &tally : tallies)
                if (tally.key && tally.key >> 48 == id) ran += tally.count;
            wrong += ran != (tallied ? launch.copies : 0);
        }
        return wrong;
    }

    /* Nothing is marked any more; boxes stay. */
    void unmark() {
        for (uint32_t leaf = 0; leaf < std::min(control.leaves, slots[0].leaf_count); ++leaf)
            std::fill_n(leaves.data() + leaf * slots[0].leaf_words + OWNER_WORDS, mark_words(slots[0].granule_shift), 0);
    }
    bool is_marked() const {
        for (uint32_t leaf = 0; leaf < std::min(control.leaves, slots[0].leaf_count); ++leaf) {
            const uint32_t *words = leaves.data() + leaf * slots[0].leaf_words + OWNER_WORDS;
            if (std::any_of(words, words + mark_words(slots[0].granule_shift), [](uint32_t word) { return word; })) return true;
        }
        return false;
    }

  private:
    struct Expected {
        uint64_t copies = 0, bytes = 0, unknown = 0, unsized = 0;
        std::map<uint64_t, std::set<uint64_t>> read; /* page -> granules */
        std::map<uint64_t, uint64_t> counts;         /* granule -> copies that begin there */
    };
    static constexpr uint64_t FIRST_CHUNK = 0x7f1200000000 >> CHUNK_SHIFT;

    std::vector<uint16_t> chunk_of = std::vector<uint16_t>(CHUNKS_OF_SPACE, NO_CHUNK);
    std::vector<uint32_t> page_of = std::vector<uint32_t>(NUMBERED_CHUNKS * CHUNK_PAGES, NO_PAGE);
    std::vector<uint32_t> pages, leaves;
    std::vector<Tally> tallies = std::vector<Tally>(TALLIES);
    std::vector<Box> boxes;
    std::vector<Totals> totals;
    std::vector<Slot> slots;
    std::vector<Expected> expected;
    std::set<uint64_t> seen;
    BankControl control{};
    uint32_t numbers = 0;

    uint32_t *number_of(uint64_t page) {
        uint64_t chunk = (page >> (CHUNK_SHIFT - PAGE_SHIFT)) - FIRST_CHUNK;
        return chunk < NUMBERED_CHUNKS ? &page_of[chunk * CHUNK_PAGES + page % CHUNK_PAGES] : nullptr;
    }
    bool numbered(uint64_t page) {
        uint32_t *number = number_of(page);
        return number && *number != NO_PAGE;
    }

    /* As memory that was allocated, or mapped by means unknown to the collector. */
    void number(uint64_t page) {
        if (!seen.insert(page).second || once_in(6) || numbers == PAGES) return;
        if (uint32_t *number = number_of(page)) *number = numbers++;
    }

    int wrong_pages(const Slot &slot, const Expected &launch, bool counted) const {
        std::map<uint64_t, std::set<uint64_t>> read;
        std::map<uint64_t, uint64_t> counts, lost = launch.counts;
        uint64_t without_leaf = 0;
        for (uint64_t chunk = 0; chunk < NUMBERED_CHUNKS; ++chunk)
            for (uint64_t at = 0; at < CHUNK_PAGES; ++at) {
                uint32_t number = page_of[chunk * CHUNK_PAGES + at], state = number == NO_PAGE ? UNTOUCHED : slot.pages[number];
                uint64_t page = (FIRST_CHUNK + chunk) << (CHUNK_SHIFT - PAGE_SHIFT) | at, first = page << (PAGE_SHIFT - slot.granule_shift);
                auto wanted = launch.read.find(page);
                if (state == UNTOUCHED) continue;
                if (state & WHOLE_PAGE) {
                    without_leaf += 1;
                    if (state & MARK_READ && wanted != launch.read.end()) read[page] = wanted->second;
                    for (auto &[granule, count] : launch.counts)
                        if (granule >> (PAGE_SHIFT - slot.granule_shift) == page) lost.erase(granule), counts[granule] = count;
                    continue;
                }
                const uint32_t *leaf = slot.leaves + static_cast<uint64_t>(state - LEAF) * slot.leaf_words;
                if (leaf[0] != slot.id || leaf[1] != number) return 1;
                for (uint32_t granule = 0; granule < PAGE_BYTES >> slot.granule_shift; ++granule) {
                    if (leaf[OWNER_WORDS + granule / GRANULES_OF_WORD] >> granule % GRANULES_OF_WORD * 2 & MARK_READ) read[page].insert(first + granule);
                    uint32_t times = counted ? leaf[OWNER_WORDS + mark_words(slot.granule_shift) + granule * KINDS + READ] : 0;
                    if (times) counts[first + granule] = times;
                }
            }
        return (read != launch.read) + (counted && counts != launch.counts) + (without_leaf != totals[slot.id].without_leaf);
    }
};

struct Copy {
    uint32_t map;
    Position at;
    uint32_t mode;
};

Position anywhere(const Tensor &tensor) {
    Position at{};
    bool inside = once_in(2);
    for (uint32_t dimension = 0; dimension < 5; ++dimension) /* beyond the rank they are whatever was in a register */
        at.of[dimension] = static_cast<int32_t>(dimension >= tensor.rank ? between(-9, 9) : inside ? between(0, std::max<int64_t>(0, tensor.size[dimension] - tensor.box[dimension])) : between(-18, 44));
    return at;
}

template <class Does> void copy(Slot *slot, const TensorMap *named, const Copy &which) {
    for (lane = 4; lane < 6; ++lane) load_tensor<Does>(slot, 3u << 4, 0, named, which.at, which.mode);
}

template <class Does> void copy_all(Slot *slot, const TensorMap *maps, std::vector<Copy> copies) {
    constexpr uint32_t THREADS = 3;
    std::vector<std::thread> threads;
    for (uint32_t thread = 0; thread < THREADS; ++thread) {
        std::shuffle(copies.begin(), copies.end(), generator);
        threads.emplace_back([=, part = std::vector<Copy>(copies)] {
            for (const Copy &which : part) copy<Does>(slot, maps + which.map, which);
        });
    }
    for (std::thread &thread : threads) thread.join();
}

/* Launches copy boxes by maps that are written anew between them, and within them. */
template <class Does> int wrong_of(int turns) {
    constexpr uint32_t MAPS = 3, THREADS = 3;
    alignas(64) TensorMap maps[MAPS];
    int wrong = 0;
    for (int turn = 0; turn < turns; ++turn) {
        Launches launches(static_cast<uint32_t>(between(Does::counts ? 10 : 6, 12)), Does::counts, once_in(4) ? 5 : 800);
        bool reads_maps = !once_in(20);
        std::vector<Tensor> tensors(MAPS);
        for (uint32_t phase = 0; phase < 2 * Launches::SLOTS; ++phase) {
            Slot *slot = launches.slot(phase / 2);
            slot->reads_tensor_maps = reads_maps;
            for (Tensor &tensor : tensors)
                if (once_in(6)) tensor = Tensor();
                else if (once_in(3)) tensor.change();
            std::vector<Copy> copies;
            for (uint32_t number = 0; number < 5; ++number) {
                auto map = static_cast<uint32_t>(between(0, MAPS - 1));
                copies.push_back({map, anywhere(tensors[map]), once_in(12) ? 1u : TILED});
                if (once_in(3)) copies.push_back(copies[between(0, number)]);
            }
            for (uint32_t map = 0; map < MAPS; ++map) maps[map] = tensors[map].map;
            for (const Copy &which : copies)
                for (uint32_t thread = 0; thread < THREADS; ++thread)
                    launches.expect(slot->id, tensors[which.map], which.at, reads_maps && which.mode == TILED);
            copy_all<Does>(slot, maps, copies);
        }
        wrong += launches.wrong(Does::counts, Does::tallies);
    }
    return wrong;
}

/* Boxes that are kept in one place take it from each other. */
int wrong_in_one_place() {
    alignas(64) static TensorMap map;
    int wrong = 0;
    for (int turn = 0; turn < 4; ++turn) {
        Launches launches(9, true, 200);
        Tensor tensor;
        while (tensor.rank < 2) tensor = Tensor();
        for (uint32_t dimension = 0; dimension < 2; ++dimension) tensor.set_size(dimension, 4000), tensor.set_box(dimension, 8);
        map = tensor.map;
        Slot *slot = launches.slot(0);
        std::map<Box *, std::vector<Copy>> of_place;
        for (int number = 0; number < 4000; ++number) {
            Position at{};
            for (uint32_t dimension = 0; dimension < 2; ++dimension) at.of[dimension] = static_cast<int32_t>(between(0, 400));
            of_place[BoxKey(slot, &map, tensor.rank, at).place(slot)].push_back({0, at, TILED});
        }
        std::vector<Copy> copies;
        for (auto &[place, sharing] : of_place)
            if (sharing.size() > 1) copies.insert(copies.end(), sharing.begin(), sharing.end());
        wrong += copies.size() < 50;
        for (uint32_t time = 0; time < 2; ++time) {
            for (const Copy &which : copies)
                for (uint32_t thread = 0; thread < 3; ++thread) launches.expect(0, tensor, which.at, true);
            copy_all<Counts>(slot, &map, copies);
        }
        wrong += launches.wrong(true);
    }
    return wrong;
}

/* A box that is known is neither looked at nor marked; one that is claimed is not marked. */
int wrong_again() {
    alignas(64) static TensorMap map;
    int wrong = 0;
    for (int turn = 0; turn < 200; ++turn) {
        Launches launches(9, false, 800);
        Tensor tensor;
        map = tensor.map;
        Copy which{0, Position{}, TILED};
        Slot *slot = launches.slot(0);
        Box *place = BoxKey(slot, &map, tensor.rank, which.at).place(slot);
        launches.expect(0, tensor, which.at, true);
        bool has_pages = true;
        auto is_wrong = [&](uint32_t id, bool looked_at, bool marked) {
            launches.unmark();
            looks = 0;
            copy<Touch>(launches.slot(id), &map, which);
            return (looks > 0) != looked_at || launches.is_marked() != (marked && has_pages);
        };
        copy<Touch>(slot, &map, which);
        has_pages = launches.is_marked();
        for (uint32_t dimension = tensor.rank; dimension < 5; ++dimension) which.at.of[dimension] = 7; /* says nothing */
        wrong += is_wrong(0, false, false);
        wrong += is_wrong(1, true, true);
        const uint64_t key = place->key;
        place->key = ~key; /* another copy looks at it */
        wrong += is_wrong(0, true, false);
        place->key = 1; /* another box is there */
        wrong += is_wrong(0, true, true);
        place->key = 1, taken_by = ~key;
        wrong += is_wrong(0, true, false);
        place->key = 1, taken_by = 2;
        wrong += is_wrong(0, true, true) || place->key != 2;
        taken_by = 0;
    }
    return wrong;
}

} // namespace

int main(int count, char **) {
    for (uint32_t dimension = 0; count > 1 && dimension < 5; ++dimension) std::printf("%llu\n", static_cast<Count>(box_factor(dimension)));
    if (count > 1) return 0;
    std::printf("touch: %d wrong\n", wrong_of<Touch>(300));
    std::printf("counts: %d wrong\n", wrong_of<Counts>(300));
    std::printf("instructions: %d wrong\n", wrong_of<Instructions>(50));
    std::printf("access: %d wrong\n", wrong_of<Access>(50));
    std::printf("records: %d\n", records > 0);
    std::printf("in one place: %d wrong\n", wrong_in_one_place());
    std::printf("known boxes: %d wrong\n", wrong_again());
}
