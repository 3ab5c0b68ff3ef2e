/* What the program has: memory, tensors, kernels; and what happened, for the analyst.
 *
 * For any thread. Nothing here calls CUDA, so that a callback that holds one of the driver's locks
 * never waits for another that wants it. */
#ifndef PASTA_MEMORY_INVENTORY_H
#define PASTA_MEMORY_INVENTORY_H

#include "cuda_text.h"
#include "memory_analyst.h"
#include "tensor_kernels.h"

#include <sanitizer.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <unordered_set>

namespace pasta {

class MemoryInventory {
  public:
    MemoryInventory(const MemoryOptions &asked, int64_t clock_offset) : options(asked), offset(clock_offset) {}

    int64_t clock() const { return static_cast<int64_t>(pasta_clock(CLOCK_MONOTONIC)) + offset; }

    static int64_t thread_id() {
        static thread_local const auto id = static_cast<int64_t>(syscall(SYS_gettid));
        return id;
    }

    void allocated(uint64_t address, uint64_t bytes, int32_t device, const char *space) {
        std::lock_guard<std::mutex> guard(lock);
        auto known = live.find(address);
        if (!bytes || (known != live.end() && known->second.bytes == bytes)) return;
        live[address] = {++objects, bytes, space, device};
        for (uint64_t page = address >> PAGE_SHIFT; page <= (address + bytes - 1) >> PAGE_SHIFT; ++page)
            if (known_pages.insert(page).second) page_log.push_back(page);
        push({.what = HostEvent::ALLOCATION, .device = device, .text = space, .address = address, .bytes = bytes, .object = objects});
    }

    void released(uint64_t address) {
        std::lock_guard<std::mutex> guard(lock);
        auto known = live.find(address);
        if (known == live.end()) return;
        const Object &object = known->second;
        push({.what = HostEvent::RELEASE, .device = object.device, .text = object.space, .address = address, .bytes = object.bytes, .object = object.id});
        live.erase(known);
    }

    /* Whether all of a range is in one live allocation. */
    bool holds(uint64_t begin, uint64_t bytes) {
        std::lock_guard<std::mutex> guard(lock);
        auto after = live.upper_bound(begin);
        if (after == live.begin()) return false;
        const auto &[address, object] = *std::prev(after);
        return begin - address <= object.bytes && bytes <= object.bytes - (begin - address);
    }

    /* A tensor's storage comes (bytes > 0) or goes; return its id. */
    uint64_t tensor_changed(uint64_t address, int64_t bytes, int32_t device) {
        std::lock_guard<std::mutex> guard(lock);
        if (bytes > 0) {
            tensors[address] = ++tensor_count;
            push({.what = HostEvent::TENSOR, .device = device, .address = address, .bytes = static_cast<uint64_t>(bytes), .object = tensor_count});
            return tensor_count;
        }
        auto known = tensors.find(address);
        if (known == tensors.end()) return 0;
        uint64_t id = known->second;
        push({.what = HostEvent::TENSOR_RELEASE, .device = device, .address = address, .object = id});
        tensors.erase(known);
        return id;
    }

    void add_range(const std::string &name, int64_t began) {
        std::lock_guard<std::mutex> guard(lock);
        HostEvent event{.what = HostEvent::RANGE};
        event.moment = ++moment;
        event.ts = began;
        event.tid = thread_id();
        event.range = name;
        event.end = clock();
        events.push_back(std::move(event));
    }

    void add_device(int32_t device) {
        std::lock_guard<std::mutex> guard(lock);
        push({.what = HostEvent::DEVICE, .device = device});
    }

    void add_launch(const Launch &launch, const char *call, int64_t end) {
        std::lock_guard<std::mutex> guard(lock);
        events.push_back({.what = HostEvent::LAUNCH, .moment = launch.moment, .text = call, .launch = launch, .end = end});
    }

    /* A launch comes after everything that was pushed before. */
    uint64_t next_moment() {
        std::lock_guard<std::mutex> guard(lock);
        return ++moment;
    }

    /* Number the pages that a context's table does not have yet. */
    void add_pages(MemoryContext &context) {
        std::lock_guard<std::mutex> guard(lock);
        for (; context.pages_seen < page_log.size(); ++context.pages_seen) context.pages.add(page_log[context.pages_seen]);
    }

    const KernelOfLaunch *kernel_of(const Sanitizer_LaunchData &data) {
        {
            std::lock_guard<std::mutex> guard(lock);
            auto known = kernels.find(data.function);
            if (known != kernels.end()) return known->second.kernel;
        }
        KernelOfLaunch kernel;
        kernel.name = data.functionName ? demangled(data.functionName) : "unknown kernel";
        kernel.wanted = options.wants(kernel.name);
        if (data.functionName) kernel.copies = tensor_kernels.of(data.module, data.functionName);
        std::lock_guard<std::mutex> guard(lock);
        known_kernels.push_back(std::move(kernel));
        kernels[data.function] = {data.module, &known_kernels.back()};
        return &known_kernels.back();
    }

    /* Where a kernel's code begins since patches were last set, when modules had been patched so many times. */
    uint64_t code_of(const Sanitizer_LaunchData &data, const SanitizerLibrary &library, uint64_t times_patched) {
        std::lock_guard<std::mutex> guard(lock);
        auto found = kernels.find(data.function);
        if (found == kernels.end()) return 0; /* its module has gone meanwhile */
        KnownKernel &known = found->second;
        if (known.times_patched != times_patched && data.functionName) {
            uint64_t bytes = 0;
            library.function_code(data.module, data.functionName, &known.code, &bytes);
            known.times_patched = times_patched;
        }
        return known.code;
    }

    const KernelOfLaunch *graph_of(size_t kernel_count, bool wanted) {
        std::lock_guard<std::mutex> guard(lock);
        auto [known, fresh] = graph_kernels.emplace(std::pair(kernel_count, wanted), nullptr);
        if (fresh) {
            known_kernels.push_back({.name = "CUDA graph of " + std::to_string(kernel_count) + " kernels", .wanted = wanted, .is_graph = true});
            known->second = &known_kernels.back();
        }
        return known->second;
    }

    /* The number of a graph that is launched, until it goes: another may get its handle. */
    uint64_t graph_number(CUgraphExec graph) {
        std::lock_guard<std::mutex> guard(lock);
        auto [known, fresh] = graph_numbers.try_emplace(graph, graphs + 1);
        graphs += fresh;
        return known->second;
    }

    void graph_goes(CUgraphExec graph) {
        std::lock_guard<std::mutex> guard(lock);
        graph_numbers.erase(graph);
    }

    void module_loaded(const Sanitizer_ResourceModuleData &data) {
        if (options.tensor_loads == TensorLoads::MAPPED) tensor_kernels.loaded(data.module, data.pCubin, data.cubinSize);
    }

    void module_unloads(CUmodule module) {
        tensor_kernels.unloads(module);
        std::lock_guard<std::mutex> guard(lock);
        std::erase_if(kernels, [&](const auto &entry) { return entry.second.module == module; });
    }

    void hand_over(std::vector<Drained> banks) {
        std::lock_guard<std::mutex> guard(lock);
        for (Drained &bank : banks) drained.push_back(std::move(bank));
        wake.notify_one();
    }

    void close() {
        std::lock_guard<std::mutex> guard(lock);
        closed = true;
        wake.notify_one();
    }

    /* What there is for the analyst, within 50 ms; false: there is nothing left, and nothing comes. */
    bool take(std::vector<HostEvent> &news, std::vector<Drained> &banks) {
        std::unique_lock<std::mutex> guard(lock);
        wake.wait_for(guard, std::chrono::milliseconds(50), [this] { return closed || !drained.empty(); });
        news = std::move(events);
        banks = std::move(drained);
        events.clear();
        drained.clear();
        return !closed || !news.empty() || !banks.empty();
    }

  private:
    struct Object {
        uint64_t id, bytes;
        const char *space;
        int32_t device;
    };

    struct KnownKernel {
        CUmodule module = nullptr;
        const KernelOfLaunch *kernel = nullptr;
        uint64_t code = 0, times_patched = 0;
    };

    const MemoryOptions &options;
    const int64_t offset;
    TensorKernels tensor_kernels;
    std::mutex lock;
    std::condition_variable wake;
    std::map<uint64_t, Object> live;
    std::unordered_set<uint64_t> known_pages;
    std::vector<uint64_t> page_log; /* in order of appearance */
    std::unordered_map<uint64_t, uint64_t> tensors;
    std::unordered_map<CUfunction, KnownKernel> kernels;
    std::map<std::pair<size_t, bool>, const KernelOfLaunch *> graph_kernels;
    std::deque<KernelOfLaunch> known_kernels;
    std::unordered_map<CUgraphExec, uint64_t> graph_numbers;
    uint64_t objects = 0, tensor_count = 0, graphs = 0, moment = 0;
    std::vector<HostEvent> events;
    std::vector<Drained> drained;
    bool closed = false;

    void push(HostEvent event) {
        event.moment = ++moment;
        event.ts = clock();
        event.tid = thread_id();
        events.push_back(event);
    }
};

} // namespace pasta

#endif
