/* Rows of pasta's tables from CUPTI's activity records. For one thread at a time. */
#ifndef PASTA_ACTIVITY_ROWS_H
#define PASTA_ACTIVITY_ROWS_H

#include "cupti_library.h"
#include "table_writer.h"

#include <cxxabi.h>

#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>

namespace pasta {

class ActivityRows {
  public:
    ActivityRows(const char *folder, int32_t rank, int64_t clock_offset, const Cupti &library)
        : ring(folder, rank), offset(clock_offset), cupti(library) {}

    bool opened() const { return ring.error() == 0; }

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
        case CUPTI_ACTIVITY_KIND_MEMORY2: return add_memory(as<CUpti_ActivityMemory4>(record));
        case CUPTI_ACTIVITY_KIND_MARKER: return add_marker(as<CUpti_ActivityMarker2>(record));
        case CUPTI_ACTIVITY_KIND_CONTEXT: return add_context(as<CUpti_ActivityContext3>(record));
        case CUPTI_ACTIVITY_KIND_DEVICE: return add_device(as<CUpti_ActivityDevice5>(record));
        default: count_loss("activity record of kind " + std::to_string(record.kind) + ": left out", 1);
        }
    }

    void count_loss(const std::string &reason, uint64_t count) {
        losses.add(ring, text("cuda"), text(reason), static_cast<int64_t>(count), static_cast<int64_t>(clock()));
    }

    void write() {
        kernels.write(ring);
        copies.write(ring);
        calls.write(ring);
        syncs.write(ring);
        memory.write(ring);
        spans.write(ring);
        devices.write(ring);
        losses.write(ring);
    }

    void finish() {
        if (!open_ranges.empty()) count_loss("NVTX ranges without an end: left out", open_ranges.size());
        write();
    }

  private:
    struct Range {
        int64_t ts, tid;
        uint32_t name;
    };

    Ring ring;
    const int64_t offset;
    const Cupti &cupti;
    uint64_t launches = 0, objects = 0;
    std::unordered_map<uint64_t, uint64_t> live_objects; /* address -> object id */
    std::unordered_map<uint32_t, uint32_t> device_of_context;
    std::unordered_map<uint32_t, Range> open_ranges;
    std::unordered_map<std::string, uint32_t> demangled;

    Table<int32_t, int64_t, int64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, int64_t, int64_t, uint32_t,
          uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint64_t>
        kernels{"kernel",     "device",   "ts",        "dur",       "launch_id",      "correlation",
                "external_id", "graph_id", "graph_node_id", "context", "stream",      "name_text",
                "grid_x",     "grid_y",   "grid_z",    "block_x",   "block_y",        "block_z",
                "registers",  "static_shared", "dynamic_shared", "shared_bytes", "local_bytes"};
    Table<int32_t, int64_t, int64_t, uint64_t, uint64_t, int64_t, int64_t, uint32_t, uint32_t, uint32_t, int64_t> copies{
        "copy",   "device",    "ts",          "dur",              "correlation", "external_id", "context",
        "stream", "kind_text", "source_text", "destination_text", "bytes"};
    Table<int64_t, int64_t, int64_t, uint64_t, uint64_t, uint32_t, int32_t, uint64_t> calls{
        "call", "tid", "ts", "dur", "correlation", "external_id", "name_text", "result", "stack_id"};
    Table<int32_t, int64_t, int64_t, uint64_t, uint64_t, int64_t, uint32_t, int64_t, uint64_t> syncs{
        "sync", "device", "ts", "dur", "correlation", "external_id", "context", "kind_text", "stream", "event_id"};
    Table<int32_t, int64_t, uint32_t, uint32_t, uint64_t, int64_t, uint64_t, int64_t, uint64_t> memory{
        "memory", "device", "ts", "event_text", "space_text", "address", "bytes", "object_id", "stream", "stack_id"};
    Table<int64_t, int64_t, int64_t, uint32_t, uint32_t, uint64_t, uint64_t> spans{
        "span", "tid", "ts", "dur", "level_text", "name_text", "external_id", "stack_id"};
    Table<int32_t, uint32_t, uint32_t, uint32_t, int64_t, int32_t, uint32_t, double, int64_t> devices{
        "device",        "device", "vendor_text", "name_text", "uuid_text", "memory_bytes", "multiprocessors",
        "compute_capability_text", "peak_bandwidth", "cache_bytes"};
    Table<uint32_t, uint32_t, int64_t, int64_t> losses{"loss", "collector_text", "reason_text", "count", "first_ts"};

    template <class Record> static const Record &as(const CUpti_Activity &record) {
        return reinterpret_cast<const Record &>(record);
    }

    uint32_t text(std::string_view value) { return ring.text_id(value); }

    /* The duration, 0 with a loss where the times make no sense. */
    int64_t duration(uint64_t start, uint64_t end, const char *what) {
        if (start && end >= start) return static_cast<int64_t>(end - start);
        count_loss(std::string(what) + " without sound times: kept as unfinished", 1);
        return -1;
    }

    void add_kernel(const CUpti_ActivityKernel10 &kernel) {
        int64_t dur = duration(kernel.start, kernel.end, "kernel");
        kernels.add(ring, static_cast<int32_t>(kernel.deviceId), static_cast<int64_t>(kernel.start), dur, ++launches,
                    kernel.correlationId, 0, kernel.graphId, kernel.graphNodeId, kernel.contextId, kernel.streamId,
                    name_of(kernel.name), kernel.gridX, kernel.gridY, kernel.gridZ, kernel.blockX, kernel.blockY,
                    kernel.blockZ, kernel.registersPerThread, kernel.staticSharedMemory, kernel.dynamicSharedMemory,
                    kernel.staticSharedMemory + kernel.dynamicSharedMemory, kernel.localMemoryPerThread);
        if (dur < 0) kernels.set_null<2>();
    }

    template <class Copy> void add_copy(const Copy &copy) {
        int64_t dur = duration(copy.start, copy.end, "copy");
        copies.add(ring, static_cast<int32_t>(copy.deviceId), static_cast<int64_t>(copy.start), dur, copy.correlationId,
                   0, copy.contextId, copy.streamId, text(copy_kind(copy.copyKind)), text(memory_kind(copy.srcKind)),
                   text(memory_kind(copy.dstKind)), static_cast<int64_t>(copy.bytes));
        if (dur < 0) copies.set_null<2>();
    }

    void add_memset(const CUpti_ActivityMemset4 &set) {
        int64_t dur = duration(set.start, set.end, "memset");
        copies.add(ring, static_cast<int32_t>(set.deviceId), static_cast<int64_t>(set.start), dur, set.correlationId, 0,
                   set.contextId, set.streamId, text("memset"), 0, text(memory_kind(set.memoryKind)),
                   static_cast<int64_t>(set.bytes));
        if (dur < 0) copies.set_null<2>();
    }

    void add_call(const CUpti_ActivityAPI &call, CUpti_CallbackDomain domain) {
        const char *name = nullptr;
        cupti.callback_name(domain, call.cbid, &name);
        calls.add(ring, call.threadId, static_cast<int64_t>(call.start),
                  duration(call.start, call.end, "call"), call.correlationId, 0,
                  text(without_version(name ? name : "unknown call", domain)), static_cast<int32_t>(call.returnValue), 0);
    }

    void add_sync(const CUpti_ActivitySynchronization2 &sync) {
        static const char *const kinds[] = {"unknown", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
        const char *kind = kinds[static_cast<size_t>(sync.type) < std::size(kinds) ? sync.type : 0];
        auto device = device_of_context.find(sync.contextId);
        syncs.add(ring, device == device_of_context.end() ? -1 : static_cast<int32_t>(device->second),
                  static_cast<int64_t>(sync.start), duration(sync.start, sync.end, "synchronisation"),
                  sync.correlationId, 0, sync.contextId, text(kind), sync.streamId,
                  sync.cudaEventId == CUPTI_SYNCHRONIZATION_INVALID_VALUE ? 0 : sync.cudaEventId);
        if (sync.streamId == static_cast<uint32_t>(CUPTI_SYNCHRONIZATION_INVALID_VALUE)) syncs.set_null<7>();
        if (device == device_of_context.end()) syncs.set_null<0>();
    }

    void add_memory(const CUpti_ActivityMemory4 &change) {
        bool allocated = change.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
        uint64_t object = 0;
        if (allocated) {
            object = live_objects[change.address] = ++objects;
        } else if (auto known = live_objects.find(change.address); known != live_objects.end()) {
            object = known->second;
            live_objects.erase(known);
        }
        memory.add(ring, static_cast<int32_t>(change.deviceId), static_cast<int64_t>(change.timestamp),
                   text(allocated ? "allocate" : "release"), text(space(change)), change.address,
                   static_cast<int64_t>(change.bytes), object, change.streamId, 0);
        if (change.streamId == static_cast<uint32_t>(CUPTI_INVALID_STREAM_ID)) memory.set_null<7>();
    }

    void add_marker(const CUpti_ActivityMarker2 &marker) {
        bool starts = marker.flags & CUPTI_ACTIVITY_FLAG_MARKER_START;
        if (starts && marker.name) {
            open_ranges[marker.id] = {static_cast<int64_t>(marker.timestamp), marker.objectId.pt.threadId,
                                      text(marker.name)};
        } else if (marker.flags & CUPTI_ACTIVITY_FLAG_MARKER_END) {
            auto range = open_ranges.find(marker.id);
            if (range == open_ranges.end()) return count_loss("NVTX range without a start: left out", 1);
            spans.add(ring, range->second.tid, range->second.ts,
                      static_cast<int64_t>(marker.timestamp) - range->second.ts, text("annotation"), range->second.name,
                      0, 0);
            open_ranges.erase(range);
        } else {
            count_loss("NVTX marks (moments, not ranges): left out", 1);
        }
    }

    void add_context(const CUpti_ActivityContext3 &context) { device_of_context[context.contextId] = context.deviceId; }

    void add_device(const CUpti_ActivityDevice5 &device) {
        std::string capability =
            std::to_string(device.computeCapabilityMajor) + "." + std::to_string(device.computeCapabilityMinor);
        devices.add(ring, static_cast<int32_t>(device.id), text("nvidia"), text(device.name ? device.name : ""),
                    text(uuid_text(device.uuid)), static_cast<int64_t>(device.globalMemorySize),
                    static_cast<int32_t>(device.numMultiprocessors), text(capability),
                    static_cast<double>(device.globalMemoryBandwidth) * 1000., static_cast<int64_t>(device.l2CacheSize));
    }

    uint32_t name_of(const char *mangled) {
        if (!mangled) return text("unknown kernel");
        auto known = demangled.find(mangled);
        if (known != demangled.end()) return known->second;
        int status = 0;
        std::unique_ptr<char, void (*)(void *)> plain(abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
        return demangled[mangled] = text(status == 0 ? plain.get() : mangled);
    }

    static const char *copy_kind(uint8_t kind) {
        static const char *const names[] = {"unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                            "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP"};
        return kind < std::size(names) ? names[kind] : "unknown";
    }

    static const char *memory_kind(uint16_t kind) {
        static const char *const names[] = {"unknown", "pageable", "pinned",        "device",
                                            "array",   "managed",  "device_static", "managed_static"};
        return kind < std::size(names) ? names[kind] : "unknown";
    }

    static const char *space(const CUpti_ActivityMemory4 &change) {
        if (change.memoryPoolConfig.memoryPoolType != CUPTI_ACTIVITY_MEMORY_POOL_TYPE_INVALID) return "pool";
        switch (change.memoryKind) {
        case CUPTI_ACTIVITY_MEMORY_KIND_PINNED: return "pinned";
        case CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE: return "host";
        case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED:
        case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC: return "managed";
        default: return "device";
        }
    }

    /* CUPTI names runtime calls with the version in which they came: cudaLaunchKernel_v7000. */
    static std::string without_version(std::string name, CUpti_CallbackDomain domain) {
        size_t at = name.rfind("_v");
        bool versioned = domain == CUPTI_CB_DOMAIN_RUNTIME_API && at != std::string::npos &&
                         name.find_first_not_of("0123456789", at + 2) == std::string::npos;
        return versioned ? name.substr(0, at) : name;
    }

    static std::string uuid_text(const CUuuid &uuid) {
        static const char digits[] = "0123456789abcdef";
        std::string text = "GPU-";
        for (size_t at = 0; at < sizeof(uuid.bytes); ++at) {
            auto byte = static_cast<uint8_t>(uuid.bytes[at]);
            text += {digits[byte >> 4], digits[byte & 15]};
            if (at == 3 || at == 5 || at == 7 || at == 9) text += '-';
        }
        return text;
    }
};

} // namespace pasta

#endif
