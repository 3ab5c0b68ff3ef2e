/* Gives records to ActivityRows as CUPTI would, for test_cuda_activity.py. No GPU, no CUPTI. */
#include "../../../pasta/collect/native/activity_rows.h"

using namespace pasta;

static CUptiResult name_call(CUpti_CallbackDomain domain, uint32_t id, const char **name) {
    *name = domain == CUPTI_CB_DOMAIN_RUNTIME_API ? "cudaLaunchKernel_v7000" : "cuGraphLaunch";
    return id == 99 ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}

template <class Record> static void add(ActivityRows &rows, CUpti_ActivityKind kind, Record record) {
    record.kind = kind;
    rows.add(reinterpret_cast<const CUpti_Activity &>(record));
}

static void add_kernels(ActivityRows &rows) {
    char name[] = "_Z3addPKfS0_Pf";
    CUpti_ActivityKernel10 kernel{};
    kernel.start = 100, kernel.end = 130, kernel.correlationId = 7, kernel.graphId = 3, kernel.graphNodeId = 5ull << 32;
    kernel.name = name, kernel.gridX = 4, kernel.gridY = 2, kernel.gridZ = 1, kernel.blockX = 256, kernel.streamId = 13;
    kernel.staticSharedMemory = 16, kernel.dynamicSharedMemory = 32;
    add(rows, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, kernel);
    std::strcpy(name, "_Z3mulPKfS0_Pf"); /* another name in the same place */
    kernel.end = 0;
    add(rows, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, kernel);
}

static void add_calls(ActivityRows &rows) {
    CUpti_ActivityAPI call{};
    call.start = 50, call.end = 60, call.threadId = 42, call.correlationId = 7, call.cbid = 1;
    add(rows, CUPTI_ACTIVITY_KIND_RUNTIME, call);
    add(rows, CUPTI_ACTIVITY_KIND_DRIVER, call);
    call.cbid = 99;
    add(rows, CUPTI_ACTIVITY_KIND_DRIVER, call);
}

static void add_memory(ActivityRows &rows) {
    CUpti_ActivityMemory4 change{};
    change.address = 0x1000, change.bytes = 64, change.timestamp = 5, change.streamId = CUPTI_INVALID_STREAM_ID;
    change.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_MANAGED;
    for (auto operation : {CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE}) {
        change.memoryOperationType = operation;
        add(rows, CUPTI_ACTIVITY_KIND_MEMORY2, change);
    }
    change.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
    change.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, change.streamId = 9;
    change.memoryPoolConfig.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
    change.memoryPoolConfig.pool.size = 4096, change.memoryPoolConfig.utilizedSize = 64;
    add(rows, CUPTI_ACTIVITY_KIND_MEMORY2, change);
    change.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, change.address = 0x9999, change.correlationId = 8;
    add(rows, CUPTI_ACTIVITY_KIND_MEMORY2, change);
    CUpti_ActivityAPI call{};
    call.start = 1, call.end = 2, call.threadId = 43, call.correlationId = 8, call.cbid = 1;
    add(rows, CUPTI_ACTIVITY_KIND_RUNTIME, call);
}

static void add_managed(ActivityRows &rows) {
    CUpti_ActivityUnifiedMemoryCounter3 seen{};
    seen.start = 10, seen.end = 14, seen.address = 0x2000, seen.value = 65536, seen.srcId = 0, seen.dstId = 1;
    for (int kind = 1; kind < CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_COUNT; ++kind) {
        seen.counterKind = static_cast<CUpti_ActivityUnifiedMemoryCounterKind>(kind);
        add(rows, CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER, seen);
    }
}

static void add_others(ActivityRows &rows) {
    CUpti_ActivityMemcpy6 copy{};
    copy.start = 20, copy.end = 25, copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, copy.srcKind = 3, copy.dstKind = 1, copy.bytes = 8;
    add(rows, CUPTI_ACTIVITY_KIND_MEMCPY, copy);
    CUpti_ActivityMemset4 set{};
    set.start = 30, set.end = 20, set.memoryKind = 3, set.bytes = 16;
    add(rows, CUPTI_ACTIVITY_KIND_MEMSET, set);
    CUpti_ActivityDevice5 device{};
    device.computeCapabilityMajor = 8, device.computeCapabilityMinor = 6, device.numMultiprocessors = 10, device.coreClockRate = 1000000;
    device.globalMemoryBandwidth = 2000;
    add(rows, CUPTI_ACTIVITY_KIND_DEVICE, device);
    add(rows, CUPTI_ACTIVITY_KIND_OVERHEAD, copy);
    rows.add(FinishedRange{42, 40, 50, "load"});
}

int main(int count, char **arguments) {
    if (count != 2) return 2;
    Cupti cupti;
    cupti.callback_name = &name_call;
    ActivityRows rows(arguments[1], 0, 1000, cupti);
    if (!rows.opened()) return 1;
    add_kernels(rows);
    add_calls(rows);
    add_memory(rows);
    add_managed(rows);
    add_others(rows);
    rows.write();
}
