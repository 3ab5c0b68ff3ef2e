/* Which patches are put at which instructions. */
#ifndef PASTA_MEMORY_PATCH_LIST_H
#define PASTA_MEMORY_PATCH_LIST_H

#include "memory_options.h"

#include <sanitizer.h>

#include <string>
#include <utility>
#include <vector>

namespace pasta {

/* SANITIZER_INSTRUCTION_TMA_LOAD, which headers before 13.3 lack; a library that lacks it refuses the patch. */
constexpr auto TENSOR_LOAD = static_cast<Sanitizer_InstructionId>(43);

using WantedPatches = std::vector<std::pair<Sanitizer_InstructionId, std::string>>;

inline void add_event_patches(WantedPatches &wanted) {
    static const std::pair<Sanitizer_InstructionId, const char *> events[] = {
        {SANITIZER_INSTRUCTION_BLOCK_ENTER, "event_block_entry"},
        {SANITIZER_INSTRUCTION_BLOCK_EXIT, "event_block_exit"},
        {SANITIZER_INSTRUCTION_BARRIER, "event_barrier"},
        {SANITIZER_INSTRUCTION_SYNCWARP, "event_warp_barrier"},
        {SANITIZER_INSTRUCTION_SHFL, "event_shuffle"},
        {SANITIZER_INSTRUCTION_CALL, "event_device_call"},
        {SANITIZER_INSTRUCTION_RET, "event_device_return"},
        {SANITIZER_INSTRUCTION_DEVICE_SIDE_MALLOC, "event_device_malloc"},
        {SANITIZER_INSTRUCTION_DEVICE_SIDE_FREE, "event_device_free"},
        {SANITIZER_INSTRUCTION_CUDA_BARRIER, "event_cuda_barrier"},
        {SANITIZER_INSTRUCTION_PIPELINE_COMMIT, "event_pipeline_commit"},
        {SANITIZER_INSTRUCTION_PIPELINE_WAIT, "event_pipeline_wait"},
        {SANITIZER_INSTRUCTION_CLUSTER_BARRIER_ARRIVE, "event_cluster_arrive"},
        {SANITIZER_INSTRUCTION_CLUSTER_BARRIER_WAIT, "event_cluster_wait"},
        {SANITIZER_INSTRUCTION_WARPGROUP_MMA_ASYNC, "event_matrix_product"},
    };
    wanted.insert(wanted.end(), std::begin(events), std::end(events));
}

inline WantedPatches wanted_patches(const MemoryOptions &options) {
    std::string level = options.patches();
    WantedPatches wanted{
        {SANITIZER_INSTRUCTION_GLOBAL_MEMORY_ACCESS, level + "global"},
        {SANITIZER_INSTRUCTION_MEMCPY_ASYNC, level + "async_copy"},
        {SANITIZER_INSTRUCTION_BULK_COPY_GLOBAL_TO_SHARED, level + "bulk_load"},
        {SANITIZER_INSTRUCTION_BULK_COPY_SHARED_TO_GLOBAL, level + "bulk_store"},
        {SANITIZER_INSTRUCTION_BULK_REDUCTION_SHARED_TO_GLOBAL, level + "bulk_reduction"},
    };
    if (options.tensor_loads == TensorLoads::WATCHED) wanted.emplace_back(TENSOR_LOAD, level + "tensor_load");
    if (options.every_space) {
        wanted.emplace_back(SANITIZER_INSTRUCTION_SHARED_MEMORY_ACCESS, level + "shared");
        wanted.emplace_back(SANITIZER_INSTRUCTION_LOCAL_MEMORY_ACCESS, level + "local");
        wanted.emplace_back(SANITIZER_INSTRUCTION_REMOTE_SHARED_MEMORY_ACCESS, level + "remote_shared");
        wanted.emplace_back(SANITIZER_INSTRUCTION_MATRIX_MEMORY_ACCESS, level + "matrix");
        wanted.emplace_back(SANITIZER_INSTRUCTION_ASYNC_STORE, level + "async_store");
        wanted.emplace_back(SANITIZER_INSTRUCTION_ASYNC_REDUCTION, level + "async_reduction");
    }
    if (options.records) wanted.emplace_back(SANITIZER_INSTRUCTION_CACHE_CONTROL, level + "cache_control");
    if (options.events) add_event_patches(wanted);
    return wanted;
}

} // namespace pasta

#endif
