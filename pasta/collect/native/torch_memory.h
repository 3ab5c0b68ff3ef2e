/* What PyTorch allocates and releases.
 *
 * On the CPU an allocator in front of PyTorch's own tells of it, from every thread. PyTorch's own
 * report is left off there: it tells a thread only of what that thread allocates and releases under
 * a profiler, and warns on stderr of each block that is older. On devices it is all there is: see
 * DeviceMemory. */
#ifndef PASTA_TORCH_MEMORY_H
#define PASTA_TORCH_MEMORY_H

#include <c10/core/CPUAllocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <c10/util/flat_hash_map.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <atomic>
#include <mutex>
#include <optional>

namespace pasta {

/* Hears of an allocation (bytes above 0) or a release (below); totals are those of the device. */
using MemoryEvent = void (*)(const void *address, int64_t bytes, int64_t allocated,
                             int64_t reserved, int device) noexcept;

/* The blocks whose allocation was recorded. */
class Blocks {
  public:
    void add(const void *address, int64_t bytes) {
        Shard &shard = of(address);
        std::lock_guard<std::mutex> guard(shard.lock);
        shard.bytes[address] = bytes;
    }

    std::optional<int64_t> remove(const void *address) {
        Shard &shard = of(address);
        std::lock_guard<std::mutex> guard(shard.lock);
        auto known = shard.bytes.find(address);
        if (known == shard.bytes.end()) return std::nullopt;
        int64_t bytes = known->second;
        shard.bytes.erase(known);
        return bytes;
    }

    int64_t change_total(int64_t by) { return total.fetch_add(by) + by; }

  private:
    static constexpr size_t SHARDS = 64;
    struct alignas(64) Shard {
        std::mutex lock;
        ska::flat_hash_map<const void *, int64_t> bytes;
    };
    Shard shards[SHARDS];
    std::atomic<int64_t> total{0};

    Shard &of(const void *address) {
        return shards[(reinterpret_cast<uintptr_t>(address) * 0x9E3779B97F4A7C15u) >> 58];
    }
};

/* Stands in front of the CPU's allocator. There is one, for ever: tensors keep pointers to it. */
class FrontAllocator final : public c10::Allocator {
  public:
    static std::atomic<Blocks *> blocks; /* of the recording; null: there is none */
    static std::atomic<bool> paused;
    static MemoryEvent event;

    /* Put it in place, if the allocator is the one that it found first. */
    static void install() {
        static FrontAllocator front;
        c10::Allocator *current = c10::GetCPUAllocator();
        if (!behind && current->raw_deleter()) {
            behind = current;
            release_behind = current->raw_deleter();
        }
        if (behind && current == behind) c10::SetCPUAllocator(&front);
    }

    c10::DataPtr allocate(size_t bytes) override {
        c10::DataPtr data = behind->allocate(bytes);
        if (data.get() != data.get_context() || !data.compare_exchange_deleter(release_behind, &release))
            return data;
        Blocks *known = blocks.load(std::memory_order_acquire);
        if (known && bytes && !paused.load(std::memory_order_relaxed)) {
            auto size = static_cast<int64_t>(bytes);
            known->add(data.get(), size);
            event(data.get(), size, known->change_total(size), 0, -1);
        }
        return data;
    }

    c10::DeleterFnPtr raw_deleter() const override { return &release; }

    void copy_data(void *to, const void *from, size_t bytes) const override {
        behind->copy_data(to, from, bytes);
    }

  private:
    static c10::Allocator *behind;
    static c10::DeleterFnPtr release_behind;

    /* A release is told also during a pause if its allocation was. */
    static void release(void *address) {
        Blocks *known = blocks.load(std::memory_order_acquire);
        if (known && address)
            if (std::optional<int64_t> bytes = known->remove(address))
                event(address, -*bytes, known->change_total(-*bytes), 0, -1);
        release_behind(address);
    }
};

inline std::atomic<Blocks *> FrontAllocator::blocks{nullptr};
inline std::atomic<bool> FrontAllocator::paused{false};
inline MemoryEvent FrontAllocator::event = nullptr;
inline c10::Allocator *FrontAllocator::behind = nullptr;
inline c10::DeleterFnPtr FrontAllocator::release_behind = nullptr;

/* Takes the place of a profiler on a thread, as PyTorch tells only profilers of devices' memory.
 *
 * PyTorch hands it on to the threads of autograd. It is put only where there is nothing, and taken
 * away before a profiler of the program begins: there can be one on a thread. */
class DeviceMemory final : public torch::profiler::impl::ProfilerStateBase {
  public:
    DeviceMemory()
        : ProfilerStateBase(torch::profiler::impl::ProfilerConfig(
              torch::profiler::impl::ProfilerState::Disabled)) {}

    static void enter_thread() {
        static const auto shared = std::make_shared<DeviceMemory>();
        if (!c10::ThreadLocalDebugInfo::current())
            c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::PROFILER_STATE, shared);
    }

    static void leave_thread() {
        auto *current = c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE);
        if (dynamic_cast<DeviceMemory *>(current))
            c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::PROFILER_STATE);
    }

    void reportMemoryUsage(void *address, int64_t bytes, size_t allocated, size_t reserved,
                           c10::Device device) override {
        if (!device.is_cpu() && !FrontAllocator::paused.load(std::memory_order_relaxed))
            FrontAllocator::event(address, bytes, static_cast<int64_t>(allocated),
                                  static_cast<int64_t>(reserved), device.index());
    }

    /* Asked for the CPU's memory only. */
    bool memoryProfilingEnabled() const override { return false; }

    torch::profiler::impl::ActiveProfilerType profilerType() override {
        return torch::profiler::impl::ActiveProfilerType::NONE;
    }
};

} // namespace pasta

#endif
