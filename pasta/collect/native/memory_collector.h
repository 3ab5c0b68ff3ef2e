/* The memory collector: what it does at Compute Sanitizer's callbacks. */
#ifndef PASTA_MEMORY_COLLECTOR_H
#define PASTA_MEMORY_COLLECTOR_H

#include "cupti_clients.h"
#include "mapped_launches.h"
#include "memory_records.h"
#include "nvtx_ranges.h"
#include "patched_modules.h"
#include "program_streams.h"
#include "tensor_map_check.h"

#include <set>

namespace pasta {

/* Calls of ours into CUDA have callbacks too, which are none of the program's. */
inline thread_local int calls_of_ours = 0;
struct OursNow {
    OursNow() { ++calls_of_ours; }
    ~OursNow() { --calls_of_ours; }
    OursNow(const OursNow &) = delete;
};

class MemoryCollector {
  public:
    std::atomic<uint64_t> callbacks{0};

    MemoryCollector(const char *channel, int32_t its_rank, int64_t clock_offset, const char *patches, MemoryOptions asked)
        : folder(channel), rank(its_rank), options(std::move(asked)), inventory(options, clock_offset), modules(options, call, patches),
          rows(channel, its_rank, clock_offset), analyst(rows, options) {}

    MemoryRows &table_rows() { return rows; }
    MemoryInventory &has() { return inventory; }
    Sanitizer &sanitizer() { return call; }
    Driver &cuda() { return driver; }
    MappedLaunches &maps() { return mapped; }
    const MemoryOptions &asked() const { return options; }

    void start() {
        if (options.stacks) rows.stacks.leave_out(CodeOf({"libcuda.so", "libsanitizer"}));
        thread = std::thread([this] { analyse(); });
    }

    void module_loaded(const Sanitizer_ResourceModuleData &data) {
        OursNow ours;
        inventory.module_loaded(data);
        modules.loaded(data.context, data.module);
    }

    void module_unloads(const Sanitizer_ResourceModuleData &data) {
        modules.unloads(data.context, data.module);
        inventory.module_unloads(data.module);
    }

    /* Watch launches from here on, or do not. */
    void record(bool on) {
        recording = on;
        modules.begin_with(!options.switched || (on && options.launches.may_have(chosen)));
    }

    void launch_begins(const Sanitizer_LaunchData &data) {
        OursNow ours;
        LaunchArguments::here().is_launched = true;
        InFlight &now = in_flight();
        forget(now);
        if (closed) return;
        if (is_capturing(data.stream)) return modules_stay(data.context, [] { return true; }); /* queries would end the capture */
        const KernelOfLaunch *kernel = inventory.kernel_of(data);
        uint64_t stack = stack_here();
        std::lock_guard<std::mutex> guard(launching);
        if (closed) return;
        begin(data, data.hStream, data.stream, kernel, now);
        now.launch.stack = stack;
        if (kernel->copies.any() && now.place.bank) now.launch.mapped = mapped.of_launch(data.function, kernel->copies, now.context->reads_tensor_maps);
        watch(data, now);
    }

    void launch_ends() {
        OursNow ours;
        InFlight &now = in_flight();
        if (now.launch.id) end(now, "cuLaunchKernel");
        now = {};
    }

    /* A graph gets its kernels' code as it is when it is made, and crashes where patches come or go later. */
    void graph_is_made(CUcontext handle) {
        OursNow ours;
        modules_stay(handle, [&] {
            std::lock_guard<std::mutex> guard(launching);
            return streams.are_idle(handle);
        });
    }

    void graph_is_made() {
        CUcontext current = nullptr;
        if (driver.current_context(&current) == CUDA_SUCCESS) graph_is_made(current);
    }

    void graph_begins(const Sanitizer_GraphLaunchData &data) {
        Graph &graph = graph_of_thread();
        forget(graph.now);
        graph = {};
        if (closed) return;
        graph.handle = data.hStream;
        graph.stream = data.stream;
        graph.stack = stack_here();
        graph.id = inventory.graph_number(data.graphExec);
        graph.made = data.graphExec;
    }

    /* All kernels of a graph have the slot of its launch: the device knows no other. */
    void node_begins(const Sanitizer_GraphNodeLaunchData &data) {
        Graph &graph = graph_of_thread();
        if (!graph.id || data.nodeType != CU_GRAPH_NODE_TYPE_KERNEL) return;
        OursNow ours;
        const KernelOfLaunch &kernel = *inventory.kernel_of(data.launchData);
        std::lock_guard<std::mutex> guard(launching);
        if (closed) return;
        if (graph.kernels++ == 0) {
            begin(data.launchData, graph.handle, graph.stream, inventory.graph_of(0, kernel.wanted), graph.now);
            graph.now.launch.graph = graph.id;
            graph.now.launch.stack = graph.stack;
            graph.context = data.launchData.context;
        }
        graph.copying += kernel.copies.any();
        graph.copies |= kernel.copies;
        if (data.launchData.context == graph.context) return watch(data.launchData, graph.now);
        kernels_elsewhere += graph.now.place.bank != nullptr;
        watch(data.launchData, {.patches = graph.now.patches});
    }

    void graph_ends() {
        OursNow ours;
        Graph &graph = graph_of_thread();
        if (graph.now.launch.id) {
            graph.now.launch.kernel = inventory.graph_of(graph.kernels, true);
            if (graph.copying && graph.now.place.bank) graph.now.launch.mapped = mapped.of_graph(graph.made, graph.copying, graph.copies, graph.now.context->reads_tensor_maps);
            end(graph.now, "cuGraphLaunch");
            kernels_of_graphs += graph.kernels;
        }
        graph = {};
    }

    void stream_ends(CUcontext handle, CUstream public_stream, Sanitizer_StreamHandle stream) {
        OursNow ours;
        std::lock_guard<std::mutex> guard(launching);
        streams.ends(handle, public_stream);
        auto known = contexts.find(handle);
        if (known != contexts.end() && !closed) known->second->stream_ends(stream);
    }

    void context_ends(CUcontext handle) {
        OursNow ours;
        modules.ends(handle);
        std::unique_lock<std::mutex> guard(launching);
        refused.erase(handle);
        auto known = contexts.find(handle);
        if (known == contexts.end() || closed) return;
        finish(*known->second);
        finish_records(*known->second);
        MemoryContext &context = *retired.emplace_back(std::move(known->second));
        contexts.erase(known);
        guard.unlock();
        wait_until(WAIT_FOR_THREADS, [&] { return context.needs_no_stream(); });
        wait_until(RING_PATIENCE + LAST_WAIT, [&] { return context.is_read(); }); /* the analyst's copies go with the context */
    }

    /* The process ends: drain everything and write it. */
    void close() {
        {
            OursNow ours;
            forget(in_flight());
            forget(graph_of_thread().now);
            std::unique_lock<std::mutex> guard(launching);
            if (closed) return;
            closed = true;
            await_launches(guard);
            for (auto &[handle, context] : contexts) finish(*context);
            for (auto &[handle, context] : contexts) finish_records(*context);
        }
        inventory.close();
        if (thread.joinable()) thread.join();
        rows.add_stacks();
        count_losses();
        rows.write();
    }

    bool is_capturing(CUstream stream) {
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        return driver.is_capturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
    }

    static inline MemoryCollector *instance = nullptr;

  private:
    static constexpr uint64_t LAST_WAIT = 5'000'000'000, WAIT_FOR_THREADS = 1'000'000'000;
    static constexpr int64_t WRITE_EVERY = 100'000'000;

    struct InFlight {
        MemoryContext *context = nullptr;
        Sanitizer_StreamHandle handle = nullptr;
        Patches patches = Patches::NONE; /* of the kernels of its context */
        Place place{};
        Launch launch{};
    };
    struct Graph {
        uint64_t id = 0, stack = 0;
        CUcontext context = nullptr; /* of its first kernel */
        Sanitizer_StreamHandle handle = nullptr;
        CUstream stream = nullptr;
        CUgraphExec made = nullptr;
        size_t kernels = 0, copying = 0; /* of tensors, and no patch sees it */
        TensorCopies copies;
        InFlight now;
    };

    const std::string folder;
    const int32_t rank;
    const MemoryOptions options;
    Sanitizer call;
    Driver driver;
    MemoryInventory inventory;
    MappedLaunches mapped{inventory, driver};
    PatchedModules modules;
    std::mutex launching; /* guards all below but what the analyst alone uses */
    std::map<CUcontext, std::unique_ptr<MemoryContext>> contexts;
    std::vector<std::unique_ptr<MemoryContext>> retired;
    std::map<MemoryContext *, std::unique_ptr<RecordReader>> readers;
    std::set<CUcontext> refused;
    ProgramStreams streams{driver};
    uint64_t launches = 0, context_count = 0, under_way = 0; /* watched launches that have begun and not ended: they need their patches */
    std::atomic<uint64_t> chosen{0}; /* launches of wanted kernels */
    std::atomic<bool> recording{true};
    bool wants_patches = !options.switched; /* also where no graph keeps them */
    uint64_t not_selected = 0, while_patching = 0, without_context = 0, kernels_elsewhere = 0, given_up = 0, raw_dropped = 0, raw_missing = 0, raw_counted = 0;
    std::atomic<uint64_t> kernels_of_graphs{0};
    std::atomic<bool> closed{false};
    MemoryRows rows;
    MemoryAnalyst analyst;
    int64_t written = 0; /* when rows were last written */
    bool silence_told = false;
    std::thread thread;

    template <class IsIdle> void modules_stay(CUcontext handle, IsIdle is_idle) {
        if (options.switched && handle && !closed) modules.stay(handle, is_idle);
    }

    template <class Holds> static void wait_until(uint64_t at_most_ns, Holds holds) {
        uint64_t until = pasta_clock(CLOCK_MONOTONIC) + at_most_ns;
        while (!holds() && pasta_clock(CLOCK_MONOTONIC) < until) usleep(50);
    }

    uint64_t stack_here() { return options.stacks ? rows.stacks.here() : 0; }

    static InFlight &in_flight() {
        static thread_local InFlight now;
        return now;
    }

    static Graph &graph_of_thread() {
        static thread_local Graph graph;
        return graph;
    }

    /* A launch, or the launch of a graph, is about to be made; find a place for what it does. */
    void begin(const Sanitizer_LaunchData &data, Sanitizer_StreamHandle handle, CUstream stream, const KernelOfLaunch *kernel, InFlight &now) {
        MemoryContext *context = context_of(data, handle);
        now.context = context;
        now.handle = handle;
        now.launch = {++launches, inventory.next_moment(), inventory.clock(), MemoryInventory::thread_id(), data.device,
                      context ? context->number : 0, streams.number_of(data.context, stream),
                      kernel, {data.gridDim_x, data.gridDim_y, data.gridDim_z}, {data.blockDim_x, data.blockDim_y, data.blockDim_z}, 0, 0};
        bool recorded = recording && options.launches.may_have(chosen);
        if (options.switched && (recorded || !under_way)) wants_patches = recorded;
        now.patches = modules.watch(data.context, wants_patches, [&] { return !options.switched || streams.are_idle(data.context); });
        bool selected = recorded && kernel->wanted && options.launches.has(chosen) && options.wants_in(NvtxRanges::open());
        chosen += kernel->wanted;
        if (!selected) {
            ++not_selected;
            return;
        }
        if (now.patches != Patches::ALL) {
            ++while_patching;
            return;
        }
        if (!context) {
            ++without_context;
            return;
        }
        inventory.add_pages(*context);
        now.place = context->take(handle, stream, now.launch.ts, [&] { inventory.hand_over(context->take_drained()); });
        if (context->has_drained()) inventory.hand_over(context->take_drained());
        if (now.place.bank) ++under_way;
        if (now.place.bank && options.slots_differ())
            now.place.bank->address(call, now.place.slot, code_of(data, *kernel), static_cast<uint32_t>(now.launch.id), handle);
    }

    /* Tell a kernel where to leave what it does; nowhere, if it has no place. */
    void watch(const Sanitizer_LaunchData &data, const InFlight &now) {
        if (now.patches == Patches::NONE) return;
        const Slot *slot = now.place.bank ? now.place.bank->on_device(now.place.slot) : nullptr;
        call("launch", call.library.set_launch_data, data.hLaunch, data.function, data.hStream, slot);
    }

    void end(InFlight &now, const char *name) {
        if (options.serial && now.handle) call("waiting", call.library.synchronize, now.handle);
        inventory.add_launch(now.launch, name, inventory.clock());
        if (!now.place.bank) return;
        std::lock_guard<std::mutex> guard(launching);
        --under_way;
        now.context->launched(now.place, now.launch);
    }

    /* Forget a launch that never ended, as it failed. */
    void forget(InFlight &now) {
        if (now.place.bank) {
            std::lock_guard<std::mutex> guard(launching);
            --under_way;
            now.context->abandoned(now.place);
        }
        now = {};
    }

    /* Have launches that other threads have begun come back from the driver: these need the lock for that. */
    void await_launches(std::unique_lock<std::mutex> &guard) {
        uint64_t until = pasta_clock(CLOCK_MONOTONIC) + WAIT_FOR_THREADS;
        while (under_way && pasta_clock(CLOCK_MONOTONIC) < until) {
            guard.unlock();
            usleep(50);
            guard.lock();
        }
    }

    /* Kernels of a graph share its slot: of those an offset would say nothing. */
    uint64_t code_of(const Sanitizer_LaunchData &data, const KernelOfLaunch &kernel) {
        return kernel.is_graph ? 0 : inventory.code_of(data, call.library, modules.times_patched());
    }

    MemoryContext *context_of(const Sanitizer_LaunchData &data, Sanitizer_StreamHandle stream) {
        auto known = contexts.find(data.context);
        if (known != contexts.end()) return known->second.get();
        if (refused.count(data.context)) return nullptr;
        auto made = std::make_unique<MemoryContext>(data.context, ++context_count, data.device, options, call, reads_tensor_maps(driver.encode_tensor_map));
        made->set_capture_test([](CUstream asked) { return instance->is_capturing(asked); });
        if (!made->make(stream)) {
            refused.insert(data.context);
            return nullptr;
        }
        add_own_stream(*made);
        if (options.records)
            readers[made.get()] = std::make_unique<RecordReader>(folder.c_str(), rank, data.device, made->records, made->ring_host, options.written);
        inventory.add_device(data.device);
        return (contexts[data.context] = std::move(made)).get();
    }

    /* Streams cannot be made in a callback, so a thread makes ours. */
    void add_own_stream(MemoryContext &context) {
        context.makes_stream = MemoryContext::ASKED;
        std::thread([this, &context] {
            OursNow ours;
            if (!context.begin_stream()) return;
            CUstream stream = nullptr;
            Sanitizer_StreamHandle handle = nullptr;
            if (driver.set_context(context.handle) == CUDA_SUCCESS &&
                driver.create_stream(&stream, CU_STREAM_NON_BLOCKING, -5) == CUDA_SUCCESS &&
                call.library.stream_handle(context.handle, stream, &handle) == SANITIZER_SUCCESS)
                context.own_stream.store(handle);
            context.makes_stream = MemoryContext::NOT;
        }).detach();
    }

    void finish(MemoryContext &context) {
        auto reader = readers.find(&context);
        given_up += context.finish(LAST_WAIT, [&] { return reader == readers.end() ? 0 : reader->second->accesses.load(); });
        inventory.hand_over(context.take_drained());
    }

    void finish_records(MemoryContext &context) {
        auto reader = readers.find(&context);
        if (reader == readers.end()) return;
        RingControl control{};
        if (call("ring", call.library.copy_to_host, &control, context.ring, sizeof(control), context.own_stream.load())) {
            raw_dropped += control.dropped_accesses;
            if (!control.dead) raw_missing += reader->second->finish(control.head, 12 * LAST_WAIT);
        }
        if (!options.written) raw_counted += reader->second->accesses.load();
        readers.erase(reader);
    }

    void analyse() {
        std::vector<HostEvent> news;
        std::vector<Drained> banks;
        while (inventory.take(news, banks)) {
            for (const HostEvent &event : news) {
                if (event.what == HostEvent::DEVICE) add_device(event.device);
                else analyst.take(event);
            }
            for (Drained &bank : banks) {
                analyst.take(bank);
                bank.bank->state = Bank::FREE;
            }
            rows.add_stacks();
            look_for_silence();
            write_if_due();
            analyst.forget(inventory.clock());
        }
    }

    /* Another client that was first leaves Compute Sanitizer without a single callback, and no error. */
    void look_for_silence() {
        if (silence_told || callbacks.load() || !has_context()) return;
        silence_told = true;
        rows.count_loss("nothing of memory is recorded: Compute Sanitizer brings no callbacks, as another client was first: " +
                            cupti_clients("libsanitizer-"), 1);
        rows.write();
    }

    bool has_context() {
        OursNow ours;
        int devices = 0;
        if (driver.device_count(&devices) != CUDA_SUCCESS) return false;
        for (int device = 0; device < devices; ++device) {
            unsigned flags = 0;
            int active = 0;
            if (driver.primary_context(device, &flags, &active) == CUDA_SUCCESS && active) return true;
        }
        return false;
    }

    /* Full tables are written at once; what is less waits, as small batches are dear. */
    void write_if_due() {
        int64_t now = inventory.clock();
        if (now - written < WRITE_EVERY) return;
        written = now;
        rows.write();
    }

    void add_device(int32_t device) {
        OursNow ours;
        char name[256] = "";
        CUuuid uuid{};
        size_t bytes = 0;
        int processors = 0, major = 0, minor = 0;
        driver.device_name(name, sizeof(name), device);
        driver.device_uuid(&uuid, device);
        driver.device_memory(&bytes, device);
        driver.device_attribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
        driver.device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
        driver.device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
        rows.add_device(device, name, uuid_text(uuid), bytes, processors, std::to_string(major) + "." + std::to_string(minor));
    }

    void count_losses() {
        std::lock_guard<std::mutex> guard(launching);
        uint64_t not_watched = 0, unnumbered = 0;
        auto add = [&](const MemoryContext &context) {
            not_watched += context.not_watched;
            unnumbered += context.pages.unnumbered();
        };
        for (auto &[handle, context] : contexts) add(*context);
        for (auto &context : retired) add(*context);
        const std::pair<uint64_t, const char *> counted[] = {
            {not_selected, "launches that the selection leaves out: their memory was not watched"},
            {options.tensor_loads == TensorLoads::LEFT ? launches - not_selected : 0, "launches whose tensor copies (TMA) were left alone (--tensor-loads none): what they read is a lower bound"},
            {mapped.with.load(), "launches whose tensor copies (TMA) are told by the tensor maps that they were given, not counted: unique bytes are an upper bound (see --tensor-loads)"},
            {mapped.partly.load(), "of these, launches with a further tensor map that is of no known allocation, or of interleaved elements: what is copied by that is not told"},
            {mapped.without.load(), "launches, or kernels of CUDA graphs, with tensor copies (TMA) and no tensor map among their arguments: what these copy is not told (see --tensor-loads)"},
            {while_patching, "launches while another thread set patches: their memory was not watched"},
            {kernels_elsewhere, "kernels of CUDA graphs on another device than the graph's first kernel: their memory was not watched"},
            {modules.without_switching(), "contexts of which a CUDA graph was made while patches could not be set, for another thread or a kernel that did not end (--switch-patches): no launch there was watched from then on"},
            {modules.torn(), "modules that were unloaded while another thread was at their patches"},
            {without_context, "launches in contexts for which the collector got no memory: theirs was not watched"},
            {not_watched, "launches for which there was no room in time: their memory was not watched"},
            {given_up, "launches that had not ended when the program did: what they touched is not known"},
            {kernels_of_graphs.load(), "kernels of CUDA graphs: what they touched is known for the launch of the graph as a whole"},
            {rows.refused_texts(), "names beyond the first 32 MB of different ones: left out"},
            {unnumbered, "pages of memory beyond what the page table holds: accesses to them are of no known object"},
            {raw_dropped, "raw accesses that were not read in time: dropped"},
            {raw_counted, "raw accesses that were only counted (--records counted)"},
            {raw_missing, "records of warps that did not arrive"},
        };
        for (auto &[number, reason] : counted)
            if (number) rows.count_loss(reason, number);
        for (auto &[what, times] : call.failed()) rows.count_loss("Compute Sanitizer: " + what, times);
    }
};

} // namespace pasta

#endif
