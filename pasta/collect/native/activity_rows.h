/* Rows of pasta's tables from CUPTI's activity records. For one thread at a time. */
#ifndef PASTA_ACTIVITY_ROWS_H
#define PASTA_ACTIVITY_ROWS_H

#include "activity_texts.h"
#include "device_peaks.h"
#include "finished_ranges.h"
#include "launch_stacks.h"
#include "stack_rows.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace pasta {

class ActivityRows {
  public:
    ActivityRows(const char *folder, int32_t rank, int64_t clock_offset, const Cupti &library)
        : ring(folder, rank), offset(clock_offset), texts(ring, library), allocate(texts.id("allocate")),
          release(texts.id("release")), memset(texts.id("memset")), migration(texts.id("migration")),
          host(texts.id("host")), annotation(texts.id("annotation")) {}

    bool opened() const { return ring.error() == 0; }

    /* Give calls that launch the stacks that are remembered there. */
    void watch(LaunchStacks &its_stacks) {
        stacks = &its_stacks;
        stack_rows.emplace(its_stacks.stacks);
    }

    uint64_t clock() const { return pasta_clock(CLOCK_MONOTONIC) + static_cast<uint64_t>(offset); }

    void add(const CUpti_Activity &record) {
        switch (record.kind) {
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        case CUPTI_ACTIVITY_KIND_KERNEL: return add_kernel(as<CUpti_ActivityKernel10>(record));
        case CUPTI_ACTIVITY_KIND_MEMCPY: return add_copy(as<CUpti_ActivityMemcpy6>(record));
        case CUPTI_ACTIVITY_KIND_MEMCPY2: return add_copy(as<CUpti_ActivityMemcpyPtoP4>(record));
        case CUPTI_ACTIVITY_KIND_MEMSET: return add_memset(as<CUpti_ActivityMemset4>(record));
        case CUPTI_ACTIVITY_KIND_RUNTIME: return add_call(as<CUpti_ActivityAPI>(record), CUPTI_CB_DOMAIN_RUNTIME_API);
        case CUPTI_ACTIVITY_KIND_DRIVER: return add_call(as<CUpti_ActivityAPI>(record), CUPTI_CB_DOMAIN_DRIVER_API);
        case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: return add_sync(as<CUpti_ActivitySynchronization2>(record));
        case CUPTI_ACTIVITY_KIND_MEMORY2: return take_memory(as<CUpti_ActivityMemory4>(record));
        case CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER:
            return add_managed(as<CUpti_ActivityUnifiedMemoryCounter3>(record));
        case CUPTI_ACTIVITY_KIND_CONTEXT: return add_context(as<CUpti_ActivityContext3>(record));
        case CUPTI_ACTIVITY_KIND_DEVICE: return add_device(as<CUpti_ActivityDevice5>(record));
        default: count_loss("activity record of kind " + std::to_string(record.kind) + ": left out", 1);
        }
    }

    void add(const FinishedRange &range) {
        spans.add(ring, range.tid, range.ts, range.dur, annotation, texts.id(range.name), 0, 0);
    }

    /* How many kernels, copies and calls there were. */
    uint64_t work() const { return worked; }

    /* Names for which there was no memory. */
    uint64_t refused_texts() const { return ring.text.refused; }

    void count_loss(const std::string &reason, uint64_t count) {
        losses.add(ring, ring.reason_id("cuda"), ring.reason_id(reason), static_cast<int64_t>(count), static_cast<int64_t>(clock()));
    }

    void write() {
        if (stack_rows) {
            stack_rows->add(ring, [this](const char *reason, uint64_t count) { count_loss(reason, count); });
            stack_rows->write(ring);
        }
        for (const MemoryChange &seen : without_thread) add_memory(seen, -1);
        without_thread.clear();
        std::apply([this](auto &...table) { (table.write(ring), ...); },
                   std::tie(kernels, copies, calls, syncs, memory, spans, metrics, devices, losses));
    }

  private:
    struct MemoryChange {
        CUpti_ActivityMemory4 change;
        uint64_t object;
    };

    Ring ring;
    const int64_t offset;
    ActivityTexts texts;
    const uint32_t allocate, release, memset, migration, host, annotation;
    LaunchStacks *stacks = nullptr;
    std::optional<StackRows> stack_rows;
    uint64_t launches = 0, objects = 0, worked = 0;
    std::unordered_map<uint64_t, uint64_t> live_objects; /* address -> object id */
    std::vector<MemoryChange> without_thread;
    std::unordered_map<uint32_t, uint32_t> device_of_context;

    Table<int32_t, int64_t, int64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, int64_t, int64_t, uint32_t,
          uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint64_t>
        kernels{"kernel",      "device",   "ts",            "dur",            "launch_id",    "correlation",
                "external_id", "graph_id", "graph_node_id", "context",        "stream",       "name_text",
                "grid_x",      "grid_y",   "grid_z",        "block_x",        "block_y",      "block_z",
                "registers",   "static_shared", "dynamic_shared", "shared_bytes", "local_bytes"};
    Table<int32_t, int64_t, int64_t, uint64_t, uint64_t, int64_t, int64_t, uint32_t, uint32_t, uint32_t, uint64_t, uint64_t, int64_t>
        copies{"copy",      "device",      "ts",               "dur",            "correlation",         "external_id", "context", "stream",
               "kind_text", "source_text", "destination_text", "source_address", "destination_address", "bytes"};
    Table<int64_t, int64_t, int64_t, uint64_t, uint64_t, uint32_t, int32_t, uint64_t> calls{
        "call", "tid", "ts", "dur", "correlation", "external_id", "name_text", "result", "stack_id"};
    Table<int32_t, int64_t, int64_t, uint64_t, uint64_t, int64_t, uint32_t, int64_t, uint64_t> syncs{
        "sync", "device", "ts", "dur", "correlation", "external_id", "context", "kind_text", "stream", "event_id"};
    Table<int64_t, int32_t, int64_t, uint32_t, uint32_t, uint64_t, int64_t, uint64_t, int64_t, int64_t, int64_t, uint64_t> memory{
        "memory",    "tid",             "device",         "ts",     "event_text", "space_text", "address", "bytes",
        "object_id", "total_allocated", "total_reserved", "stream", "stack_id"};
    Table<int64_t, int64_t, int64_t, uint32_t, uint32_t, uint64_t, uint64_t> spans{
        "span", "tid", "ts", "dur", "level_text", "name_text", "external_id", "stack_id"};
    Table<int32_t, int64_t, int64_t, uint64_t, uint32_t, double, uint32_t> metrics{
        "metric", "device", "ts", "dur", "launch_id", "name_text", "value", "unit_text"};
    Table<int32_t, uint32_t, uint32_t, uint32_t, int64_t, int32_t, uint32_t, double, double, double, double, double, double, double, int64_t>
        devices{"device", "device", "vendor_text", "name_text", "uuid_text", "memory_bytes", "multiprocessors", "compute_capability_text",
                "peak_flops_fp64", "peak_flops_fp32", "peak_flops_tf32", "peak_flops_fp16", "peak_flops_bf16", "peak_flops_fp8",
                "peak_bandwidth", "cache_bytes"};
    Table<uint32_t, uint32_t, int64_t, int64_t> losses{"loss", "collector_text", "reason_text", "count", "first_ts"};

    template <class Record> static const Record &as(const CUpti_Activity &record) {
        return reinterpret_cast<const Record &>(record);
    }

    /* The duration; negative, with a loss, where the times make no sense. */
    int64_t duration(uint64_t start, uint64_t end, const char *what) {
        if (start && end >= start) return static_cast<int64_t>(end - start);
        count_loss(std::string(what) + " without sound times: kept as unfinished", 1);
        return -1;
    }

    void add_kernel(const CUpti_ActivityKernel10 &kernel) {
        int64_t dur = duration(kernel.start, kernel.end, "kernel");
        ++worked;
        kernels.add(ring, static_cast<int32_t>(kernel.deviceId), static_cast<int64_t>(kernel.start), dur, ++launches,
                    kernel.correlationId, 0, kernel.graphId, kernel.graphNodeId, kernel.contextId, kernel.streamId,
                    texts.kernel(kernel.name), kernel.gridX, kernel.gridY, kernel.gridZ, kernel.blockX, kernel.blockY,
                    kernel.blockZ, kernel.registersPerThread, kernel.staticSharedMemory, kernel.dynamicSharedMemory,
                    kernel.staticSharedMemory + kernel.dynamicSharedMemory, kernel.localMemoryPerThread);
        if (dur < 0) kernels.set_null<2>();
    }

    template <class Copy> void add_copy(const Copy &copy) {
        add_movement(copy, duration(copy.start, copy.end, "copy"), texts.copy_kind(copy.copyKind),
                     texts.memory_kind(copy.srcKind), texts.memory_kind(copy.dstKind));
    }

    void add_memset(const CUpti_ActivityMemset4 &set) {
        add_movement(set, duration(set.start, set.end, "memset"), memset, 0, texts.memory_kind(set.memoryKind));
    }

    template <class Movement>
    void add_movement(const Movement &moved, int64_t dur, uint32_t kind, uint32_t source, uint32_t destination) {
        copies.add(ring, static_cast<int32_t>(moved.deviceId), static_cast<int64_t>(moved.start), dur, moved.correlationId, 0,
                   moved.contextId, moved.streamId, kind, source, destination, 0, 0, static_cast<int64_t>(moved.bytes));
        ++worked;
        copies.set_null<10>(), copies.set_null<11>(); /* CUPTI does not tell addresses */
        if (dur < 0) copies.set_null<2>();
    }

    void add_call(const CUpti_ActivityAPI &call, CUpti_CallbackDomain domain) {
        int64_t dur = duration(call.start, call.end, "call");
        ++worked;
        calls.add(ring, call.threadId, static_cast<int64_t>(call.start), dur, call.correlationId, 0,
                  texts.call(domain, call.cbid), static_cast<int32_t>(call.returnValue), stacks ? stacks->of(call.correlationId) : 0);
        if (dur < 0) calls.set_null<2>();
        if (!without_thread.empty()) add_memory_of(call);
    }

    void add_sync(const CUpti_ActivitySynchronization2 &sync) {
        auto device = device_of_context.find(sync.contextId);
        int64_t dur = duration(sync.start, sync.end, "synchronisation");
        syncs.add(ring, device == device_of_context.end() ? -1 : static_cast<int32_t>(device->second),
                  static_cast<int64_t>(sync.start), dur, sync.correlationId, 0, sync.contextId, texts.sync_kind(sync.type),
                  sync.streamId, sync.cudaEventId == CUPTI_SYNCHRONIZATION_INVALID_VALUE ? 0 : sync.cudaEventId);
        if (sync.streamId == static_cast<uint32_t>(CUPTI_SYNCHRONIZATION_INVALID_VALUE)) syncs.set_null<7>();
        if (device == device_of_context.end()) syncs.set_null<0>();
        if (dur < 0) syncs.set_null<2>();
    }

    /* Only the call knows the thread; its record comes next. */
    void take_memory(const CUpti_ActivityMemory4 &change) {
        uint64_t object = 0;
        if (is_allocation(change)) {
            object = live_objects[change.address] = ++objects;
        } else if (auto known = live_objects.find(change.address); known != live_objects.end()) {
            object = known->second;
            live_objects.erase(known);
        }
        without_thread.push_back({change, object});
    }

    void add_memory_of(const CUpti_ActivityAPI &call) {
        auto rest = std::stable_partition(without_thread.begin(), without_thread.end(), [&](const MemoryChange &seen) {
            return seen.change.correlationId == call.correlationId;
        });
        for (auto seen = without_thread.begin(); seen != rest; ++seen) add_memory(*seen, call.threadId);
        without_thread.erase(without_thread.begin(), rest);
    }

    void add_memory(const MemoryChange &seen, int64_t tid) {
        const CUpti_ActivityMemory4 &change = seen.change;
        bool of_pool = change.memoryPoolConfig.memoryPoolType == CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
        memory.add(ring, tid, static_cast<int32_t>(change.deviceId), static_cast<int64_t>(change.timestamp),
                   is_allocation(change) ? allocate : release, texts.space(change), change.address,
                   static_cast<int64_t>(change.bytes), seen.object, static_cast<int64_t>(change.memoryPoolConfig.utilizedSize),
                   static_cast<int64_t>(change.memoryPoolConfig.pool.size), change.streamId, 0);
        if (tid < 0) memory.set_null<0>();
        if (!of_pool) memory.set_null<8>(), memory.set_null<9>();
        if (change.streamId == static_cast<uint32_t>(CUPTI_INVALID_STREAM_ID)) memory.set_null<10>();
    }

    /* Pages of managed memory that move, and what makes them move. */
    void add_managed(const CUpti_ActivityUnifiedMemoryCounter3 &seen) {
        auto source = static_cast<int32_t>(seen.srcId), destination = static_cast<int32_t>(seen.dstId);
        auto value = static_cast<double>(seen.value);
        uint32_t device = texts.memory_kind(CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
        switch (seen.counterKind) {
        case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD:
            return add_migration(seen, destination, host, device);
        case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH:
            return add_migration(seen, source, device, host);
        case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD:
            return add_migration(seen, source, device, device);
        case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT:
            return add_metric(seen, -1, "cpu_page_faults", 1, "faults", false);
        case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT:
            return add_metric(seen, source, "gpu_page_faults", value, "faults", true);
        case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THRASHING:
            return add_metric(seen, -1, "page_thrashing", value, "bytes", false);
        case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THROTTLING:
            return add_metric(seen, source, "page_throttling", 1, "throttlings", true);
        case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_REMOTE_MAP:
            return add_metric(seen, destination, "remote_mapping", value, "bytes", false);
        default: count_loss("event of managed memory of an unknown kind: left out", 1);
        }
    }

    void add_migration(const CUpti_ActivityUnifiedMemoryCounter3 &moved, int32_t device, uint32_t source, uint32_t destination) {
        int64_t dur = duration(moved.start, moved.end, "migration");
        copies.add(ring, device, static_cast<int64_t>(moved.start), dur, 0, 0, 0, 0, migration, source, destination, moved.address,
                   moved.address, static_cast<int64_t>(moved.value));
        copies.set_null<6>();
        if (dur < 0) copies.set_null<2>();
    }

    void add_metric(const CUpti_ActivityUnifiedMemoryCounter3 &seen, int32_t device, const char *name, double value, const char *unit,
                    bool lasts) {
        int64_t dur = lasts ? duration(seen.start, seen.end, name) : -1;
        metrics.add(ring, device, static_cast<int64_t>(seen.start), dur, 0, texts.id(name), value, texts.id(unit));
        if (dur < 0) metrics.set_null<2>();
    }

    void add_context(const CUpti_ActivityContext3 &context) { device_of_context[context.contextId] = context.deviceId; }

    void add_device(const CUpti_ActivityDevice5 &device) {
        std::string capability =
            std::to_string(device.computeCapabilityMajor) + "." + std::to_string(device.computeCapabilityMinor);
        Flops peak = peak_flops(device.computeCapabilityMajor, device.computeCapabilityMinor, device.numMultiprocessors, device.coreClockRate);
        devices.add(ring, static_cast<int32_t>(device.id), texts.id("nvidia"), texts.id(device.name ? device.name : ""),
                    texts.id(uuid_text(device.uuid)), static_cast<int64_t>(device.globalMemorySize),
                    static_cast<int32_t>(device.numMultiprocessors), texts.id(capability), peak.fp64, peak.fp32, peak.tf32,
                    peak.fp16, peak.bf16, peak.fp8, static_cast<double>(device.globalMemoryBandwidth) * 1000.,
                    static_cast<int64_t>(device.l2CacheSize));
        if (!peak.fp64) devices.set_null<7>();
        if (!peak.fp32) devices.set_null<8>();
        if (!peak.tf32) devices.set_null<9>();
        if (!peak.fp16) devices.set_null<10>();
        if (!peak.bf16) devices.set_null<11>();
        if (!peak.fp8) devices.set_null<12>();
    }

    static bool is_allocation(const CUpti_ActivityMemory4 &change) {
        return change.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
    }
};

} // namespace pasta

#endif
