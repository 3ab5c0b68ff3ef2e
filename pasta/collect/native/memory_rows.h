/* Rows of pasta's tables that the memory collector writes. For one thread at a time. */
#ifndef PASTA_MEMORY_ROWS_H
#define PASTA_MEMORY_ROWS_H

#include "stack_rows.h"
#include "table_writer.h"
#include "tensor_spans.h"

#include <memory>
#include <tuple>

namespace pasta {

/* A receiver that stands still for so long is waited for no more, and what it has no room for is dropped. */
constexpr uint64_t RING_PATIENCE = 10'000'000'000;

struct KernelOfLaunch {
    std::string name; /* demangled */
    bool wanted = true, is_graph = false;
    TensorCopies copies; /* that bear no patches and are told by their tensor maps */
};

/* A launch as the host saw it; times in ns on the trace's clock. */
struct Launch {
    uint64_t id, moment;
    int64_t ts, tid;
    int32_t device;
    uint64_t context, stream;
    const KernelOfLaunch *kernel;
    uint32_t grid[3], block[3];
    uint64_t graph, node;
    uint64_t stack = 0;
    std::shared_ptr<const MappedTensors> mapped; /* where its tensor copies bear no patches */
};

class MemoryRows {
  public:
    NativeStacks stacks; /* for any thread */

    MemoryRows(const char *folder, int32_t rank, int64_t clock_offset) : ring(folder, rank, RING_PATIENCE), offset(clock_offset) {
        for (uint32_t space = 0; space < SPACES; ++space) spaces[space] = text(space_name(space));
        unknown = text("unknown");
        tensor = text("tensor");
    }

    bool opened() const { return ring.error() == 0; }
    int64_t clock() const { return static_cast<int64_t>(pasta_clock(CLOCK_MONOTONIC)) + offset; }
    uint32_t text(std::string_view value) { return ring.text_id(value); }
    uint32_t tensor_space() const { return tensor; }

    /* Names for which there was no memory. */
    uint64_t refused_texts() const { return ring.text.refused; }

    void count_loss(const std::string &reason, uint64_t count) {
        losses.add(ring, ring.reason_id("cuda.memory"), ring.reason_id(reason), static_cast<int64_t>(count), clock());
    }

    void add_launch(const Launch &launch, const char *call, int64_t end) {
        kernels.add(ring, launch.device, launch.ts, 0, launch.id, launch.id, 0, launch.graph, launch.node,
                    static_cast<int64_t>(launch.context), static_cast<int64_t>(launch.stream), text(launch.kernel->name),
                    launch.grid[0], launch.grid[1], launch.grid[2], launch.block[0], launch.block[1], launch.block[2]);
        kernels.set_null<2>();
        calls.add(ring, launch.tid, launch.ts, end - launch.ts, launch.id, 0, text(call), launch.stack);
    }

    void add_stacks() {
        stack_rows.add(ring, [this](const char *reason, uint64_t count) { count_loss(reason, count); });
    }

    void add_memory(int64_t tid, int32_t device, int64_t ts, bool allocated, const char *space, uint64_t address,
                    uint64_t bytes, uint64_t object) {
        memory.add(ring, tid, device, ts, text(allocated ? "allocate" : "release"), text(space), address,
                   static_cast<int64_t>(bytes), object, 0);
    }

    void add_device(int32_t device, const char *name, const std::string &uuid, uint64_t bytes, int32_t processors, const std::string &capability) {
        devices.add(ring, device, text("nvidia"), text(name), text(uuid), static_cast<int64_t>(bytes), processors, text(capability));
    }

    void add_range(int64_t tid, int64_t ts, int64_t end, const std::string &name) {
        spans.add(ring, tid, ts, end - ts, text("annotation"), text(name), 0, 0);
    }

    /* The whole launch in one space; `touched` where unique bytes are known. */
    void add_totals(const Launch &launch, Space space, const uint64_t (&accesses)[KINDS][SIZES],
                    const uint64_t (&other_bytes)[KINDS], const Touched *touched, uint32_t granularity) {
        uint64_t counts[KINDS] = {}, bytes[KINDS] = {};
        for (uint32_t kind = 0; kind < KINDS; ++kind) {
            for (uint32_t size = 0; size < SIZES; ++size) {
                counts[kind] += accesses[kind][size];
                if (size != OTHER_SIZE) bytes[kind] += accesses[kind][size] << size;
                if (accesses[kind][size]) add_metric(launch, space, kind, size, accesses[kind][size]);
            }
            bytes[kind] += other_bytes[kind];
        }
        if (!(counts[READ] | counts[WRITE] | counts[ATOMIC]) && !touched) return;
        add_touch(launch, spaces[space], 0, -1, -1, granularity, touched, counts, bytes);
    }

    /* One object, or the memory of a space that is in none; `counted` says whether accesses were. */
    void add_object(const Launch &launch, uint32_t space, uint64_t object, uint32_t granularity, const Touched &touched, bool counted) {
        add_touch(launch, space, object, -1, -1, granularity, &touched, counted ? touched.accesses : nullptr, nullptr);
    }

    void add_block(const Launch &launch, uint32_t space, uint64_t object, int64_t block, uint32_t block_bytes, const uint64_t (&counts)[KINDS]) {
        add_touch(launch, space, object, block, -1, block_bytes, nullptr, counts, nullptr);
    }

    void add_unknown(const Launch &launch, const uint64_t (&counts)[KINDS], const Touched &touched, uint32_t granularity) {
        add_touch(launch, unknown, 0, -1, -1, granularity, &touched, counts, nullptr);
    }

    void add_instruction(const Launch &launch, uint32_t pc, Kind kind, uint32_t size, uint64_t count) {
        uint64_t counts[KINDS] = {}, bytes[KINDS] = {};
        counts[kind] = count;
        if (size != OTHER_SIZE) bytes[kind] = count << size;
        add_touch(launch, spaces[GLOBAL], 0, -1, pc, 0, nullptr, counts, size == OTHER_SIZE ? nullptr : bytes);
    }

    void add_event(const Launch &launch, uint32_t pc, const char *kind, uint64_t count) {
        events.add(ring, launch.device, launch.id, text(kind), pc, static_cast<int64_t>(count));
        if (launch.graph) events.set_null<3>(); /* kernels of a graph are not told apart */
    }

    void write() {
        std::apply([&](auto &...table) { (table.write(ring), ...); }, std::tie(kernels, calls, memory, touches, metrics, events, devices, spans, losses));
        stack_rows.write(ring);
    }

  private:
    Ring ring;
    const int64_t offset;
    uint32_t spaces[SPACES], unknown, tensor;
    StackRows stack_rows{stacks};

    Table<int32_t, int64_t, int64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, int64_t, int64_t, uint32_t,
          uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t>
        kernels{"kernel", "device", "ts", "dur", "launch_id", "correlation", "external_id", "graph_id", "graph_node_id",
                "context", "stream", "name_text", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"};
    Table<int64_t, int64_t, int64_t, uint64_t, uint64_t, uint32_t, uint64_t> calls{
        "call", "tid", "ts", "dur", "correlation", "external_id", "name_text", "stack_id"};
    Table<int64_t, int32_t, int64_t, uint32_t, uint32_t, uint64_t, int64_t, uint64_t, uint64_t> memory{
        "memory", "tid", "device", "ts", "event_text", "space_text", "address", "bytes", "object_id", "stack_id"};
    Table<int32_t, uint64_t, uint64_t, uint32_t, uint64_t, int64_t, uint32_t, uint32_t, int64_t, int64_t, int64_t, int64_t,
          int64_t, int64_t, int64_t, int64_t>
        touches{"touch", "device", "launch_id", "span_id", "space_text", "object_id", "block", "pc", "granularity",
                "unique_read", "unique_written", "unique_bytes", "reads", "writes", "atomics", "bytes_read", "bytes_written"};
    Table<int32_t, int64_t, int64_t, uint64_t, uint32_t, double, uint32_t> metrics{
        "metric", "device", "ts", "dur", "launch_id", "name_text", "value", "unit_text"};
    Table<int32_t, uint64_t, uint32_t, uint32_t, int64_t> events{"event", "device", "launch_id", "kind_text", "pc", "count"};
    Table<int32_t, uint32_t, uint32_t, uint32_t, int64_t, int32_t, uint32_t> devices{
        "device", "device", "vendor_text", "name_text", "uuid_text", "memory_bytes", "multiprocessors", "compute_capability_text"};
    Table<int64_t, int64_t, int64_t, uint32_t, uint32_t, uint64_t, uint64_t> spans{
        "span", "tid", "ts", "dur", "level_text", "name_text", "external_id", "stack_id"};
    Table<uint32_t, uint32_t, int64_t, int64_t> losses{"loss", "collector_text", "reason_text", "count", "first_ts"};

    static const char *space_name(uint32_t space) {
        static const char *const names[] = {"global", "shared", "local", "remote_shared"};
        return names[space];
    }

    void add_touch(const Launch &launch, uint32_t space, uint64_t object, int64_t block, int64_t pc, uint32_t granularity,
                   const Touched *touched, const uint64_t *counts, const uint64_t *bytes) {
        auto number = [](uint64_t value) { return static_cast<int64_t>(value); };
        Touched none;
        uint64_t zeros[KINDS] = {};
        const Touched &unique = touched ? *touched : none;
        const uint64_t *count = counts ? counts : zeros, *moved = bytes ? bytes : zeros;
        touches.add(ring, launch.device, launch.id, 0, space, object, block, static_cast<uint32_t>(pc), granularity,
                    number(unique.read), number(unique.written), number(unique.any), number(count[READ]), number(count[WRITE]),
                    number(count[ATOMIC]), number(moved[READ] + moved[ATOMIC]), number(moved[WRITE] + moved[ATOMIC]));
        if (block < 0) touches.set_null<5>();
        if (pc < 0) touches.set_null<6>();
        if (!touched) touches.set_null<8>(), touches.set_null<9>(), touches.set_null<10>();
        if (unique.either) touches.set_null<8>(), touches.set_null<9>();
        if (!counts) touches.set_null<11>(), touches.set_null<12>(), touches.set_null<13>();
        if (!bytes) touches.set_null<14>(), touches.set_null<15>();
    }

    void add_metric(const Launch &launch, Space space, uint32_t kind, uint32_t size, uint64_t count) {
        static const char *const kinds[] = {"reads", "writes", "atomics"};
        std::string name = std::string(space_name(space)) + "_" + kinds[kind] + "_" + (size == OTHER_SIZE ? "other" : std::to_string(1u << size));
        metrics.add(ring, launch.device, launch.ts, 0, launch.id, text(name), static_cast<double>(count), text("accesses"));
        metrics.set_null<2>();
    }
};

} // namespace pasta

#endif
