/* The collector `cuda.memory`: what kernels do to memory, through Compute Sanitizer.
 *
 * CUDA loads this library into any program that it initialises (CUDA_INJECTION64_PATH). */
#include "memory_collector.h"

#include <pthread.h>

namespace pasta {

/* Sanitizer's callbacks, sorted by what they are about. */
class MemoryHooks {
  public:
    static void install(MemoryCollector *collector) { MemoryCollector::instance = collector; }

    static void called(void *, Sanitizer_CallbackDomain domain, Sanitizer_CallbackId id, const void *data) {
        MemoryCollector *collector = MemoryCollector::instance;
        if (calls_of_ours || !collector || forked) return;
        ++collector->callbacks;
        switch (domain) {
        case SANITIZER_CB_DOMAIN_RESOURCE: return resource(*collector, id, data);
        case SANITIZER_CB_DOMAIN_LAUNCH: return launch(*collector, id, data);
        case SANITIZER_CB_DOMAIN_GRAPHS: return graph(*collector, id, data);
        case SANITIZER_CB_DOMAIN_DRIVER_API: return driver(*collector, id, *static_cast<const Sanitizer_CallbackData *>(data));
        default: return;
        }
    }

    static inline bool forked = false;

    static void close() {
        if (MemoryCollector::instance && !forked) MemoryCollector::instance->close();
    }

  private:
    static void resource(MemoryCollector &collector, Sanitizer_CallbackId id, const void *data) {
        switch (id) {
        case SANITIZER_CBID_RESOURCE_MODULE_LOADED:
            return collector.module_loaded(*static_cast<const Sanitizer_ResourceModuleData *>(data));
        case SANITIZER_CBID_RESOURCE_MODULE_UNLOAD_STARTING:
            return collector.module_unloads(*static_cast<const Sanitizer_ResourceModuleData *>(data));
        case SANITIZER_CBID_RESOURCE_DEVICE_MEMORY_ALLOC: return allocated(collector, data, "device");
        case SANITIZER_CBID_RESOURCE_HOST_MEMORY_ALLOC: return allocated(collector, data, "pinned");
        case SANITIZER_CBID_RESOURCE_MEMORY_ALLOC_ASYNC:
        case SANITIZER_CBID_RESOURCE_MEMPOOL_IMPORT_POINTER: return allocated(collector, data, "pool");
        case SANITIZER_CBID_RESOURCE_DEVICE_MEMORY_FREE:
        case SANITIZER_CBID_RESOURCE_HOST_MEMORY_FREE:
        case SANITIZER_CBID_RESOURCE_MEMORY_FREE_ASYNC:
            return collector.has().released(static_cast<const Sanitizer_ResourceMemoryData *>(data)->address);
        case SANITIZER_CBID_RESOURCE_STREAM_DESTROY_STARTING: {
            auto *stream = static_cast<const Sanitizer_ResourceStreamData *>(data);
            const SanitizerLibrary &library = collector.sanitizer().library;
            return collector.stream_ends(stream->context, library.stream_of(data), library.handle_of_stream(data));
        }
        case SANITIZER_CBID_RESOURCE_CONTEXT_DESTROY_STARTING:
            return collector.context_ends(static_cast<const Sanitizer_ResourceContextData *>(data)->context);
        default: return;
        }
    }

    static void allocated(MemoryCollector &collector, const void *data, const char *space) {
        auto *memory = static_cast<const Sanitizer_ResourceMemoryData *>(data);
        if (memory->flags & SANITIZER_MEMORY_FLAG_MANAGED) space = "managed";
        collector.has().allocated(memory->address, memory->size, memory->device, space);
    }

    static void launch(MemoryCollector &collector, Sanitizer_CallbackId id, const void *data) {
        if (id == SANITIZER_CBID_LAUNCH_BEGIN) {
            drain_before_exit();
            collector.launch_begins(*static_cast<const Sanitizer_LaunchData *>(data));
        } else if (id == SANITIZER_CBID_LAUNCH_END) {
            collector.launch_ends();
        }
    }

    static void driver(MemoryCollector &collector, Sanitizer_CallbackId id, const Sanitizer_CallbackData &data) {
        if (!collector.maps().called(id, data) && data.callbackSite == SANITIZER_API_ENTER) collector.graph_is_made(data.context);
    }

    static void graph(MemoryCollector &collector, Sanitizer_CallbackId id, const void *data) {
        auto *whole = static_cast<const Sanitizer_GraphLaunchData *>(data);
        auto *node = static_cast<const Sanitizer_GraphNodeLaunchData *>(data);
        auto *made = static_cast<const Sanitizer_GraphExecData *>(data);
        if (id == SANITIZER_CBID_GRAPHS_GRAPHEXEC_CREATING) {
            collector.graph_is_made();
        } else if (id == SANITIZER_CBID_GRAPHS_GRAPHEXEC_CREATED) {
            collector.maps().graph_is_made(made->graph, made->graphExec);
        } else if (id == SANITIZER_CBID_GRAPHS_GRAPHEXEC_DESTROYING) {
            collector.maps().graph_changes(made->graphExec);
            collector.has().graph_goes(made->graphExec);
        } else if (id == SANITIZER_CBID_GRAPHS_LAUNCH_BEGIN && !whole->isGraphUpload) {
            drain_before_exit();
            collector.graph_begins(*whole);
        } else if (id == SANITIZER_CBID_GRAPHS_NODE_LAUNCH_BEGIN && !node->isGraphUpload) {
            collector.node_begins(*node);
        } else if (id == SANITIZER_CBID_GRAPHS_LAUNCH_END && !whole->isGraphUpload) {
            collector.graph_ends();
        }
    }

    /* Registered late, so that it runs before CUDA's own end. */
    static void drain_before_exit() {
        static const int registered = std::atexit(&close);
        (void)registered;
    }
};

namespace {

/* Before these a graph has no kernel of the current context; those that are captured and the graph's end tell too. */
constexpr Sanitizer_CallbackId CALLS_THAT_MAKE_GRAPHS[] = {
    SANITIZER_CBID_DRIVER_API_cuStreamBeginCapture,       SANITIZER_CBID_DRIVER_API_cuStreamBeginCapture_ptsz,
    SANITIZER_CBID_DRIVER_API_cuStreamBeginCapture_v2,    SANITIZER_CBID_DRIVER_API_cuStreamBeginCapture_v2_ptsz,
    SANITIZER_CBID_DRIVER_API_cuStreamBeginCaptureToGraph, SANITIZER_CBID_DRIVER_API_cuStreamBeginCaptureToGraph_ptsz,
    SANITIZER_CBID_DRIVER_API_cuGraphAddKernelNode,       SANITIZER_CBID_DRIVER_API_cuGraphAddKernelNode_v2,
    SANITIZER_CBID_DRIVER_API_cuGraphAddNode,             SANITIZER_CBID_DRIVER_API_cuGraphAddNode_v2,
};

std::string subscribe(MemoryCollector &collector) {
    Sanitizer &call = collector.sanitizer();
    std::string missing = call.library.load();
    if (!missing.empty()) return missing;
    if (!collector.cuda().load()) return "the driver is too old";
    Sanitizer_SubscriberHandle subscriber = nullptr;
    SanitizerResult result = call.library.subscribe(&subscriber, &MemoryHooks::called, nullptr);
    if (result != SANITIZER_SUCCESS) return "Compute Sanitizer takes no subscriber: " + call.library.reason(result);
    call.library.ask(subscriber);
    for (auto domain : {SANITIZER_CB_DOMAIN_RESOURCE, SANITIZER_CB_DOMAIN_LAUNCH, SANITIZER_CB_DOMAIN_GRAPHS})
        call("callbacks", call.library.enable_domain, 1, subscriber, domain);
    auto enable = [&](const auto &calls) {
        for (Sanitizer_CallbackId id : calls) call("callbacks", call.library.enable_callback, 1, subscriber, SANITIZER_CB_DOMAIN_DRIVER_API, id);
    };
    if (collector.asked().switched) enable(CALLS_THAT_MAKE_GRAPHS);
    if (collector.asked().tensor_loads == TensorLoads::MAPPED) enable(CALLS_THAT_LAUNCH), enable(CALLS_THAT_CHANGE_GRAPHS);
    return "";
}

} // namespace
} // namespace pasta

using namespace pasta;

namespace {
MemoryCollector *collector = nullptr;
}

extern "C" {

/* Called by CUDA when a program initialises it. What fails here is counted, never told to CUDA: the
 * program goes on as if nobody looked. */
int InitializeInjection(void) {
    const char *folder = std::getenv("PASTA_CHANNEL"), *collect = std::getenv("PASTA_COLLECT");
    const char *patches = std::getenv("PASTA_PATCHES");
    if (!folder || !collect || collector || !patches) return 1;
    std::string settings = collect;
    if (!json_text(settings, MemoryOptions::NAME, "level")) return 1;
    auto *made = new MemoryCollector(folder, environment_rank(), json_number(settings, "offset"), patches, MemoryOptions::from(settings));
    if (!made->table_rows().opened()) return 1;
    MemoryHooks::install(made);
    std::string failure = made->asked().refusal.empty() ? subscribe(*made) : made->asked().refusal;
    if (!failure.empty()) {
        made->table_rows().count_loss("nothing of memory is recorded: " + failure, 1);
        made->table_rows().write();
        return 1;
    }
    collector = made;
    const char *told = std::getenv("PASTA_MEMORY_RECORD"); /* by a Python session, which tells again */
    made->record(told ? *told == '1' : settings.find("\"idle\": true") == std::string::npos);
    pthread_atfork(nullptr, nullptr, [] { MemoryHooks::forked = true; });
    std::atexit(&MemoryHooks::close); /* also where no launch is ever seen */
    NvtxRanges::clock = [] { return collector->has().clock(); };
    NvtxRanges::ended = [](const NvtxRange &range) {
        if (range.began && !MemoryHooks::forked) collector->has().add_range(range.name, range.began);
    };
    made->start();
    return 1;
}

/* Called by NVTX at the program's first call of it. */
int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t)) { return NvtxRanges::install(export_table); }

/* A framework tells of its tensors; return the object's id, 0 where nothing is recorded. */
uint64_t pasta_memory_tensor(uint64_t address, int64_t bytes, int device) {
    return collector && !MemoryHooks::forked ? collector->has().tensor_changed(address, bytes, device) : 0;
}

/* Watch launches from here on, or do not. */
void pasta_memory_record(int on) {
    if (collector) collector->record(on != 0);
}
}
