/* Device patches of the memory collector: what runs at each instruction that Compute Sanitizer patches.
 *
 * Every patch is called by the active lanes of a warp. */
#include "patch_records.h"
#include "patch_tensor_copies.h"

#include <sanitizer_patching.h>

#define PATCH extern "C" __device__ __noinline__ SanitizerPatchResult

/* Levels `touch` and `counts` are without records, level `access` with them. */

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

DEVICE Kind kind_of(uint32_t flags) {
    uint32_t both = flags & (SANITIZER_MEMORY_DEVICE_FLAG_READ | SANITIZER_MEMORY_DEVICE_FLAG_WRITE);
    if (both == SANITIZER_MEMORY_DEVICE_FLAG_READ) return READ;
    return both == SANITIZER_MEMORY_DEVICE_FLAG_WRITE ? WRITE : ATOMIC;
}

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
        load_tensor<Does>(data, active, pc, reinterpret_cast<const TensorMap *>(map), Position{{at0, at1, at2, at3, at4}}, mode))

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
