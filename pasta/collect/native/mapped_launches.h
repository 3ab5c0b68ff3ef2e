/* The tensor maps of launches whose tensor copies bear no patches. */
#ifndef PASTA_MAPPED_LAUNCHES_H
#define PASTA_MAPPED_LAUNCHES_H

#include "launch_arguments.h"
#include "memory_inventory.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace pasta {

/* After these a graph that can be launched has other arguments than it was made with; the graph is their first argument. */
constexpr Sanitizer_CallbackId CALLS_THAT_CHANGE_GRAPHS[] = {
    SANITIZER_CBID_DRIVER_API_cuGraphExecUpdate,
    SANITIZER_CBID_DRIVER_API_cuGraphExecUpdate_v2,
    SANITIZER_CBID_DRIVER_API_cuGraphExecKernelNodeSetParams,
    SANITIZER_CBID_DRIVER_API_cuGraphExecKernelNodeSetParams_v2,
    SANITIZER_CBID_DRIVER_API_cuGraphExecChildGraphNodeSetParams,
    SANITIZER_CBID_DRIVER_API_cuGraphExecNodeSetParams,
};

/* For any thread. A launch counts as one with maps, or as one without. */
class MappedLaunches {
  public:
    using Maps = std::shared_ptr<const MappedTensors>;
    std::atomic<uint64_t> with{0}, without{0}; /* without: kernels, where it is a graph's */
    std::atomic<uint64_t> partly{0};           /* with some maps that say nothing */

    MappedLaunches(MemoryInventory &known, const Driver &calls) : inventory(known), driver(calls) {}

    /* The driver is called, or has been; false: by no call of these. */
    bool called(Sanitizer_CallbackId id, const Sanitizer_CallbackData &data) {
        const bool begins = data.callbackSite == SANITIZER_API_ENTER;
        LaunchArguments &here = LaunchArguments::here();
        if (is_among(CALLS_THAT_LAUNCH, id)) {
            if (!begins && !here.is_launched) captured(here);
            here = begins ? LaunchArguments::of(id, data.functionParams) : LaunchArguments();
            return true;
        }
        if (!is_among(CALLS_THAT_CHANGE_GRAPHS, id)) return false;
        if (begins) graph_changes(*static_cast<const CUgraphExec *>(data.functionParams));
        return true;
    }

    /* Of the launch that this thread makes. */
    Maps of_launch(CUfunction function, TensorCopies copies, bool reads_maps) {
        return counted({copies, reads_maps ? LaunchArguments::here().take_tensor_maps(driver.function_parameter, function) : std::vector<TensorMap>()}, 1);
    }

    void graph_is_made(CUgraph graph, CUgraphExec made) {
        std::lock_guard<std::mutex> guard(lock);
        auto found = captures.find(graph);
        if (found == captures.end()) return;
        graphs[made] = std::move(found->second);
        captures.erase(found);
    }

    /* It goes, or its kernels get other arguments. */
    void graph_changes(CUgraphExec graph) {
        std::lock_guard<std::mutex> guard(lock);
        graphs.erase(graph);
    }

    /* Of a graph's launch, in which so many kernels have tensor copies. */
    Maps of_graph(CUgraphExec graph, uint64_t kernels, TensorCopies copies, bool reads_maps) {
        Captured found;
        {
            std::lock_guard<std::mutex> guard(lock);
            auto known = graphs.find(graph);
            if (known != graphs.end() && reads_maps) found = known->second;
        }
        if (found.kernels < kernels) without += kernels - found.kernels;
        return found.kernels ? counted({copies, std::move(found.maps)}, found.kernels) : nullptr;
    }

  private:
    struct Captured {
        uint64_t capture = 0, kernels = 0;
        std::vector<TensorMap> maps;
    };
    MemoryInventory &inventory;
    const Driver &driver;
    std::mutex lock;
    std::unordered_map<CUgraph, Captured> captures;
    std::unordered_map<CUgraphExec, Captured> graphs;

    template <size_t Count> static bool is_among(const Sanitizer_CallbackId (&calls)[Count], Sanitizer_CallbackId id) {
        return std::find(std::begin(calls), std::end(calls), id) != std::end(calls);
    }

    /* A call that launches has begun no launch: where its stream is captured, it made a kernel of a graph, whose launch will
     * tell no arguments. */
    void captured(LaunchArguments &here) {
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        cuuint64_t capture = 0;
        CUgraph graph = nullptr;
        bool told = driver.capture_info && driver.capture_info(here.stream, &status, &capture, &graph, nullptr, nullptr) == CUDA_SUCCESS;
        if (!told || status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return;
        const std::vector<TensorMap> maps = here.take_tensor_maps(driver.function_parameter, here.function);
        if (maps.empty()) return;
        std::lock_guard<std::mutex> guard(lock);
        Captured &mine = captures[graph];
        if (mine.capture != capture) mine = {capture, 0, {}}; /* another graph had this handle */
        ++mine.kernels;
        mine.maps.insert(mine.maps.end(), maps.begin(), maps.end());
    }

    /* As far as they are of memory that there is, and say where it lies. */
    Maps counted(MappedTensors tensors, uint64_t kernels) {
        size_t left_out = std::erase_if(tensors.maps, [&](const TensorMap &map) { return map.is_interleaved() || !inventory.holds(map.address(), extent_of(map)); });
        partly += left_out && !tensors.maps.empty();
        if (tensors.maps.empty()) return without += kernels, nullptr;
        ++with;
        return std::make_shared<const MappedTensors>(std::move(tensors));
    }
};

} // namespace pasta

#endif
