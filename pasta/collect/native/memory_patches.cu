/* Device patches of the memory collector: what runs at each instruction that Compute Sanitizer patches.
 *
 * Every patch is called by the active lanes of a warp. Lanes that hit the same granule are merged
 * before memory is touched, and a mark is tested before it is set, so that most calls only read. */
#include "memory_state.h"

#include <sanitizer_patching.h>

using namespace pasta;

#define PATCH extern "C" __device__ __noinline__ SanitizerPatchResult
#define DEVICE static __device__ __forceinline__

using Count = unsigned long long;

DEVICE uint32_t lane_of_warp() {
    uint32_t lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

DEVICE uint32_t multiprocessor() {
    uint32_t number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
}

DEVICE bool leads(uint32_t lanes, uint32_t lane) { return lane == __ffs(lanes) - 1; }

/* The first lane alone, for it; no lane, for others. Bulk and tensor copies are made once for the warp,
 * whichever lanes are at them. */
DEVICE uint32_t leader_alone(uint32_t lanes) { return leads(lanes, lane_of_warp()) ? 1u << lane_of_warp() : 0; }

/* All state lies in global memory; to say so spares the code for pointers that might not. */
DEVICE void add(uint64_t *counter, uint64_t by) {
    asm volatile("red.global.add.u64 [%0], %1;" ::"l"(counter), "l"(by) : "memory");
}

DEVICE void add(uint32_t *counter, uint32_t by) {
    asm volatile("red.global.add.u32 [%0], %1;" ::"l"(counter), "r"(by) : "memory");
}

DEVICE void set_bits(uint32_t *word, uint32_t bits) {
    asm volatile("red.global.or.b32 [%0], %1;" ::"l"(word), "r"(bits) : "memory");
}

DEVICE Kind kind_of(uint32_t flags) {
    uint32_t both = flags & (SANITIZER_MEMORY_DEVICE_FLAG_READ | SANITIZER_MEMORY_DEVICE_FLAG_WRITE);
    if (both == SANITIZER_MEMORY_DEVICE_FLAG_READ) return READ;
    return both == SANITIZER_MEMORY_DEVICE_FLAG_WRITE ? WRITE : ATOMIC;
}

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
    add(&slot->totals->global[0][kind][OTHER_SIZE], 1);
    add(&slot->totals->other_bytes[GLOBAL][kind], bytes);
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

/* Note in its leaf that `accesses` of one kind hit the granule at `address`. */
template <class Does> DEVICE void mark(Slot *slot, uint64_t address, Kind kind, uint32_t accesses) {
    uint32_t page = page_number(slot, address);
    if (page == NO_PAGE) return add(&slot->totals->unknown[kind], accesses);
    uint32_t state = page_state(slot, page);
    uint32_t marks = marks_of(kind);
    if (state & WHOLE_PAGE) return set_mark(&slot->pages[page], marks);
    uint32_t *leaf = slot->leaves + static_cast<uint64_t>(state - LEAF) * slot->leaf_words + OWNER_WORDS;
    uint32_t in_page = static_cast<uint32_t>(address) & ((1u << PAGE_SHIFT) - 1);
    uint32_t granule = in_page >> slot->granule_shift;
    set_mark(&leaf[granule / GRANULES_OF_WORD], marks << granule % GRANULES_OF_WORD * 2);
    if (Does::counts) add(&leaf[mark_words(slot->granule_shift) + granule * KINDS + kind], accesses);
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

/* --- raw records --- */

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

/* --- what patches do: levels `touch` and `counts` without records, level `access` with them --- */

template <class Does>
DEVICE void access_global(void *data, uint32_t active, uint64_t pc, uint64_t address, Kind kind, uint32_t bytes) {
    auto *slot = static_cast<Slot *>(data);
    if (!slot) return;
    touch<Does>(slot, active, pc, address, kind, bytes);
    if (Does::records) record(slot, active, pc, GLOBAL << 4 | kind, address, bytes);
}

/* An asynchronous copy reads nothing for lanes that fill with zeros. */
template <class Does> DEVICE void copy_source(void *data, uint32_t active, uint64_t pc, uint64_t source, uint32_t bytes) {
    uint32_t reading = __ballot_sync(active, source != 0);
    if (source) access_global<Does>(data, reading, pc, source, READ, bytes);
}

template <class Does>
DEVICE void access_bulk(void *data, uint32_t active, uint64_t pc, uint64_t address, Kind kind, uint32_t bytes) {
    auto *slot = static_cast<Slot *>(data);
    active = leader_alone(active);
    if (!slot || !active) return;
    count_bulk<Does>(slot, pc, kind, bytes);
    touch_range<Does>(slot, address, kind, bytes, 1);
    if (Does::records) record(slot, active, pc, GLOBAL << 4 | kind, address, bytes);
}

template <class Does>
DEVICE void access_near(void *data, uint32_t active, uint64_t pc, Space space, uint64_t address, Kind kind, uint32_t bytes) {
    auto *slot = static_cast<Slot *>(data);
    if (!slot) return;
    if (leads(active, lane_of_warp())) count_near(slot, space, kind, bytes, __popc(active));
    if (Does::records) record(slot, active, pc, code_of(space) << 4 | kind, address, bytes);
}

/* The shared memory at the other end of an asynchronous copy. */
template <class Does>
DEVICE void other_end(void *data, uint32_t active, uint64_t pc, uint64_t address, Kind kind, uint32_t bytes) {
    auto *slot = static_cast<Slot *>(data);
    if (slot && active && slot->every_space) access_near<Does>(data, active, pc, SHARED, address, kind, bytes);
}

template <class Does> DEVICE void prefetch(void *data, uint32_t active, uint64_t pc, uint64_t address) {
    auto *slot = static_cast<Slot *>(data);
    if (Does::records && slot) record(slot, active, pc, GLOBAL << 4 | PREFETCH, address, 0);
}

/* --- tensor copies: their size follows from the tensor map, which the host has seen being made --- */

struct Position {
    int32_t of[5];
};

DEVICE const TensorMap *find_tensor_map(const Slot *slot, uint64_t hash) {
    for (uint32_t attempt = 0; attempt < 16; ++attempt) {
        const TensorMap *map = slot->tensor_maps + (hash + attempt) % TENSOR_MAPS;
        if (map->hash == hash) return map;
        if (map->hash == 0) return nullptr;
    }
    return nullptr;
}

DEVICE uint64_t box_begin(const TensorMap *map, uint64_t address, const Position &at) {
#pragma unroll
    for (uint32_t dimension = 0; dimension < 5; ++dimension)
        if (at.of[dimension] > 0) address += at.of[dimension] * map->stride[dimension];
    return address;
}

/* Where a box begins along one dimension, and how many of its elements lie within the tensor. */
DEVICE int32_t begin_of(int32_t at) { return at < 0 ? 0 : at; }

DEVICE uint32_t extent(const TensorMap *map, uint32_t dimension, int32_t at) {
    if (dimension >= map->rank) return 1;
    int64_t end = static_cast<int64_t>(at) + map->box[dimension];
    int64_t size = static_cast<int64_t>(map->size[dimension]);
    int64_t inside = (end < size ? end : size) - begin_of(at);
    return inside > 0 ? static_cast<uint32_t>(inside) : 0;
}

/* Touch the part of a box that lies within its tensor, row by row; return its bytes. */
template <class Does>
DEVICE uint32_t touch_box(Slot *slot, const TensorMap *map, uint64_t tensor, const Position &at) {
    uint32_t row_bytes = extent(map, 0, at.of[0]) * static_cast<uint32_t>(map->stride[0]);
    uint32_t rows = row_bytes ? 1 : 0;
#pragma unroll
    for (uint32_t dimension = 1; dimension < 5; ++dimension) rows *= extent(map, dimension, at.of[dimension]);
    for (uint32_t row = 0; row < rows; ++row) {
        uint64_t address = box_begin(map, tensor, at);
        uint32_t rest = row;
#pragma unroll
        for (uint32_t dimension = 1; dimension < 5; ++dimension) {
            uint32_t inside = extent(map, dimension, at.of[dimension]);
            address += rest % inside * map->stride[dimension];
            rest /= inside;
        }
        touch_range<Does>(slot, address, READ, row_bytes, row == 0);
    }
    return rows * row_bytes;
}

constexpr uint32_t TILED = 0; /* SANITIZER_LOAD_TILED, which older headers lack */

template <class Does>
DEVICE void load_tensor(void *data, uint32_t active, uint64_t pc, const uint64_t *words, const Position &at, uint32_t mode) {
    auto *slot = static_cast<Slot *>(data);
    active = leader_alone(active);
    if (!slot || !active) return;
    const TensorMap *map = find_tensor_map(slot, hash_of_tensor_map(words, 0));
    uint64_t tensor = map ? map->address : words[0];
    if (!map) map = find_tensor_map(slot, hash_of_tensor_map(words, 1));
    if (!map || mode != TILED) return add(&slot->totals->unsized_tensor_loads, 1);
    uint32_t bytes = touch_box<Does>(slot, map, tensor, at);
    count_bulk<Does>(slot, pc, READ, bytes);
    if (Does::records) record(slot, active, pc, GLOBAL << 4 | READ, box_begin(map, tensor, at), bytes);
}

/* The patches; the name of each is what it does beside marking, and what it watches. Which lanes are at
 * the access is asked where a patch begins: further on, the lanes of a warp need not be together. */
#define PATCH_THAT(level, Level, name, parameters, does)                                                               \
    PATCH level##_##name parameters {                                                                                  \
        using Does = Level;                                                                                            \
        uint32_t active = __activemask();                                                                              \
        does;                                                                                                          \
        return SANITIZER_PATCH_SUCCESS;                                                                                \
    }
#define PATCHES(name, parameters, does)                                                                                \
    PATCH_THAT(touch, Touch, name, parameters, does)                                                                   \
    PATCH_THAT(counts, Counts, name, parameters, does)                                                                 \
    PATCH_THAT(instructions, Instructions, name, parameters, does)                                                     \
    PATCH_THAT(access, Access, name, parameters, does)

DEVICE uint64_t number(const void *address) { return reinterpret_cast<uint64_t>(address); }

PATCHES(global, (void *data, uint64_t pc, void *address, uint32_t bytes, uint32_t flags, const void *),
        if (!(flags & SANITIZER_MEMORY_DEVICE_FLAG_PREFETCH)) access_global<Does>(data, active, pc, number(address), kind_of(flags), bytes))
PATCHES(shared, (void *data, uint64_t pc, void *address, uint32_t bytes, uint32_t flags, const void *),
        access_near<Does>(data, active, pc, SHARED, number(address), kind_of(flags), bytes))
PATCHES(local, (void *data, uint64_t pc, void *address, uint32_t bytes, uint32_t flags, const void *),
        access_near<Does>(data, active, pc, LOCAL, number(address), kind_of(flags), bytes))
PATCHES(remote_shared, (void *data, uint64_t pc, void *address, uint32_t bytes, uint32_t flags, const void *),
        access_near<Does>(data, active, pc, REMOTE_SHARED, number(address), kind_of(flags), bytes))
/* Each lane gives the address of one row of 16 bytes. */
PATCHES(matrix, (void *data, uint64_t pc, uint32_t address, uint32_t bytes, uint32_t flags, uint32_t, const void *),
        access_near<Does>(data, active, pc, SHARED, address, kind_of(flags), bytes))
PATCHES(async_store, (void *data, uint64_t pc, uint32_t address, uint32_t, void *, uint32_t bytes),
        access_near<Does>(data, active, pc, REMOTE_SHARED, address, WRITE, bytes))
PATCHES(async_reduction, (void *data, uint64_t pc, uint32_t address, uint32_t, uint32_t bytes),
        access_near<Does>(data, active, pc, REMOTE_SHARED, address, ATOMIC, bytes))
PATCHES(async_copy, (void *data, uint64_t pc, void *source, uint32_t target, uint32_t bytes),
        copy_source<Does>(data, active, pc, number(source), bytes);
        other_end<Does>(data, active, pc, target, WRITE, bytes))
PATCHES(bulk_load, (void *data, uint64_t pc, uint64_t source, uint32_t target, uint32_t, uint32_t size, uint32_t),
        access_bulk<Does>(data, active, pc, source, READ, (size & 0xFFFF) * 16);
        other_end<Does>(data, leader_alone(active), pc, target, WRITE, (size & 0xFFFF) * 16))
PATCHES(bulk_store, (void *data, uint64_t pc, uint64_t target, uint32_t source, uint32_t size),
        access_bulk<Does>(data, active, pc, target, WRITE, (size & 0xFFFF) * 16);
        other_end<Does>(data, leader_alone(active), pc, source, READ, (size & 0xFFFF) * 16))
PATCHES(bulk_reduction, (void *data, uint64_t pc, uint64_t target, uint32_t source, uint32_t blocks),
        access_bulk<Does>(data, active, pc, target, ATOMIC, blocks * 16);
        other_end<Does>(data, leader_alone(active), pc, source, READ, blocks * 16))
PATCHES(cache_control, (void *data, uint64_t pc, void *address, Sanitizer_CacheControlInstructionKind),
        prefetch<Does>(data, active, pc, number(address)))
PATCHES(tensor_load, (void *data, uint64_t pc, uint64_t map, uint32_t, uint32_t, int32_t at0, int32_t at1, int32_t at2,
                      int32_t at3, int32_t at4, uint32_t, uint32_t, uint32_t, uint32_t mode),
        load_tensor<Does>(data, active, pc, reinterpret_cast<const uint64_t *>(map), Position{{at0, at1, at2, at3, at4}}, mode))

/* --- events: how many threads came by, per instruction --- */

DEVICE void count_event(void *data, uint64_t pc, Event event) {
    auto *slot = static_cast<Slot *>(data);
    uint32_t active = __activemask();
    if (slot && leads(active, lane_of_warp())) tally(slot, pc, event, __popc(active));
}

#define EVENT(name, event, parameters)                                                                                 \
    PATCH event_##name parameters {                                                                                    \
        count_event(data, pc, event);                                                                                  \
        return SANITIZER_PATCH_SUCCESS;                                                                                \
    }

EVENT(block_entry, BLOCK_ENTRY, (void *data, uint64_t pc))
EVENT(block_exit, BLOCK_EXIT, (void *data, uint64_t pc))
EVENT(barrier, BARRIER, (void *data, uint64_t pc, uint32_t, uint32_t, uint32_t))
EVENT(warp_barrier, WARP_BARRIER, (void *data, uint64_t pc, uint32_t))
EVENT(shuffle, SHUFFLE, (void *data, uint64_t pc))
EVENT(device_call, DEVICE_CALL, (void *data, uint64_t pc, uint64_t, uint32_t))
EVENT(device_return, DEVICE_RETURN, (void *data, uint64_t pc))
EVENT(device_malloc, DEVICE_MALLOC, (void *data, uint64_t pc, void *, uint64_t))
EVENT(device_free, DEVICE_FREE, (void *data, uint64_t pc, void *))
EVENT(cuda_barrier, CUDA_BARRIER, (void *data, uint64_t pc, void *, uint32_t, uint32_t))
EVENT(pipeline_commit, PIPELINE_COMMIT, (void *data, uint64_t pc))
EVENT(pipeline_wait, PIPELINE_WAIT, (void *data, uint64_t pc, uint32_t))
EVENT(cluster_arrive, CLUSTER_ARRIVE, (void *data, uint64_t pc))
EVENT(cluster_wait, CLUSTER_WAIT, (void *data, uint64_t pc))
EVENT(matrix_product, MATRIX_PRODUCT, (void *data, uint64_t pc, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t))
