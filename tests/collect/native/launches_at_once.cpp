/* Launches of several threads, with streams and contexts that come and go meanwhile, as callbacks tell of them.
 *
 *     launches_at_once CHANNEL streams|failed|contexts|closing|trouble|graphs
 *
 * Compute Sanitizer and the driver are stand-ins, and kernels run on the host: one reads as often as its grid has
 * blocks. The rows go to the channel. */
#include "memory_collector.h"

#include <cstdlib>

using namespace pasta;

namespace {

constexpr uint64_t PAGE = 0x7F0000000000; /* begins a page */
thread_local const Slot *told = nullptr;
std::atomic<uint32_t> launched{0};
std::atomic<int> copies_fail{0}, clearings_fail{0}, patched{0};
std::atomic<bool> capturing{false};
std::mutex memory_lock;
std::multimap<CUcontext, std::pair<void *, size_t>> memory;
std::set<CUcontext> gone;
std::atomic<useconds_t> context_takes{0};

SanitizerResult allocate(CUcontext context, void **made, size_t bytes) {
    std::lock_guard<std::mutex> guard(memory_lock);
    *made = std::calloc(1, bytes);
    memory.emplace(context, std::pair(*made, bytes));
    return SANITIZER_SUCCESS;
}

/* A context takes its memory with it. */
void free_all(CUcontext context) {
    std::lock_guard<std::mutex> guard(memory_lock);
    gone.insert(context);
    for (auto [at, end] = memory.equal_range(context); at != end; ++at) std::memset(at->second.first, 0xEE, at->second.second);
}

bool is_gone(CUcontext context) {
    std::lock_guard<std::mutex> guard(memory_lock);
    return gone.count(context) != 0;
}

void stand_in(MemoryCollector &collector) {
    SanitizerLibrary &library = collector.sanitizer().library;
    library.allocate = library.allocate_host = allocate;
    library.copy_to_device = [](void *to, void *from, size_t bytes, Sanitizer_StreamHandle) { return std::memcpy(to, from, bytes), SANITIZER_SUCCESS; };
    library.copy_to_host = [](void *to, void *from, size_t bytes, Sanitizer_StreamHandle) {
        if (copies_fail && copies_fail--) return SANITIZER_ERROR_UNKNOWN;
        return std::memcpy(to, from, bytes), SANITIZER_SUCCESS;
    };
    library.set_memory = [](void *to, int value, size_t bytes, Sanitizer_StreamHandle) {
        if (!value && clearings_fail && clearings_fail--) return SANITIZER_ERROR_UNKNOWN;
        return std::memset(to, value, bytes), SANITIZER_SUCCESS;
    };
    library.synchronize = [](Sanitizer_StreamHandle) { return SANITIZER_SUCCESS; };
    library.result_string = [](SanitizerResult, const char **text) { return *text = "failed", SANITIZER_SUCCESS; };
    library.set_launch_data = [](Sanitizer_LaunchHandle, CUfunction, Sanitizer_StreamHandle, const void *data) {
        return told = static_cast<const Slot *>(data), SANITIZER_SUCCESS;
    };
    library.add_patches = [](const char *, CUcontext) { return SANITIZER_SUCCESS; };
    library.patch_instructions = [](Sanitizer_InstructionId, CUmodule, const char *) { return SANITIZER_SUCCESS; };
    library.patch_module = [](CUmodule) { return ++patched, SANITIZER_SUCCESS; };
    library.unpatch_module = [](CUmodule) { return --patched, SANITIZER_SUCCESS; };
    Driver &cuda = collector.cuda();
    cuda.is_capturing = [](CUstream, CUstreamCaptureStatus *status) {
        return *status = capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE, CUDA_SUCCESS;
    };
    cuda.query_stream = [](CUstream) { return CUDA_SUCCESS; };
    cuda.exchange_capture_mode = [](CUstreamCaptureMode *) { return CUDA_SUCCESS; };
    cuda.set_context = [](CUcontext context) { /* fails, so there is no stream of our own */
        usleep(context_takes);
        if (is_gone(context)) std::abort();
        return CUDA_ERROR_UNKNOWN;
    };
    cuda.device_name = [](char *, int, CUdevice) { return CUDA_SUCCESS; };
    cuda.device_uuid = [](CUuuid *, CUdevice) { return CUDA_SUCCESS; };
    cuda.device_memory = [](size_t *, CUdevice) { return CUDA_SUCCESS; };
    cuda.device_attribute = [](int *, CUdevice_attribute, CUdevice) { return CUDA_SUCCESS; };
}

/* What patches do: count, and mark one granule of the only page. */
void run_kernel(Slot &slot, uint32_t reads) {
    slot.totals->global[reads % SHARDS][READ][2] += reads;
    uint32_t leaf = std::atomic_ref(slot.bank->leaves)++;
    slot.pages[0] = leaf + LEAF;
    uint32_t *words = slot.leaves + static_cast<size_t>(leaf) * slot.leaf_words;
    words[0] = slot.id;
    words[OWNER_WORDS] |= MARK_READ;
}

template <class Handle> Handle numbered(uint64_t number) { return reinterpret_cast<Handle>(number); }

struct Program {
    MemoryCollector &collector;

    static Sanitizer_LaunchData launch_data(uint64_t context, uint64_t stream, uint32_t number) {
        Sanitizer_LaunchData data{};
        data.context = numbered<CUcontext>(context);
        data.stream = numbered<CUstream>(stream);
        data.hStream = numbered<Sanitizer_StreamHandle>(stream);
        data.function = numbered<CUfunction>(1);
        data.functionName = "kernel";
        data.gridDim_x = number;
        data.gridDim_y = data.gridDim_z = data.blockDim_x = data.blockDim_y = data.blockDim_z = 1;
        return data;
    }

    uint32_t begin(uint64_t context, uint64_t stream) {
        uint32_t number = ++launched;
        told = nullptr;
        collector.launch_begins(launch_data(context, stream, number));
        return number;
    }

    /* The launch of a graph with a kernel in each of these contexts, the first of which is the stream's. */
    void replay(std::initializer_list<uint64_t> contexts) {
        uint32_t number = ++launched;
        Sanitizer_GraphLaunchData whole{};
        whole.context = numbered<CUcontext>(*contexts.begin());
        whole.stream = numbered<CUstream>(1);
        whole.hStream = numbered<Sanitizer_StreamHandle>(1);
        whole.graphExec = numbered<CUgraphExec>(1);
        collector.graph_begins(whole);
        for (uint64_t context : contexts) {
            Sanitizer_GraphNodeLaunchData node{};
            node.nodeType = CU_GRAPH_NODE_TYPE_KERNEL;
            node.launchData = launch_data(context, 1, number);
            told = nullptr;
            collector.node_begins(node);
            if (told) run_kernel(const_cast<Slot &>(*told), number);
        }
        collector.graph_ends();
    }

    void end(uint32_t number) {
        if (told) run_kernel(const_cast<Slot &>(*told), number);
        collector.launch_ends();
    }

    void launch(uint64_t context, uint64_t stream, uint32_t pause = 0) {
        uint32_t number = begin(context, stream);
        if (pause) usleep(pause);
        end(number);
    }

    void stream_ends(uint64_t context, uint64_t stream) {
        collector.stream_ends(numbered<CUcontext>(context), numbered<CUstream>(stream), numbered<Sanitizer_StreamHandle>(stream));
    }
};

/* A thread has stream after stream, two launch in their own. */
void streams(Program program) {
    auto launch = [&](uint64_t stream) {
        for (uint32_t turn = 0; turn < 200; ++turn) program.launch(1, stream, turn % 7 * 50);
    };
    std::thread one(launch, 101), other(launch, 102);
    for (uint64_t stream = 1; stream <= 100; ++stream) {
        program.launch(1, stream);
        program.stream_ends(1, stream);
        usleep(200);
    }
    one.join();
    other.join();
}

/* Some launches begin and, as they fail, never end: the others have their counts, and there is room for all. */
void failed(Program program) {
    for (int turn = 0; turn < 600; ++turn) {
        if (turn % 100 == 50) program.begin(1, 1);
        program.launch(1, 1);
    }
}

void contexts(Program program) {
    for (uint64_t context = 1; context <= 8; ++context) {
        context_takes = context % 2 ? 20000 : 0; /* the thread that makes a stream may be late */
        for (int turn = 0; turn < 20; ++turn) program.launch(context, 1);
        program.collector.context_ends(numbered<CUcontext>(context));
        free_all(numbered<CUcontext>(context));
    }
}

/* The process ends while another thread is within a launch. */
std::thread closing(Program program) {
    static std::atomic<bool> begun{false};
    std::thread late([=]() mutable {
        program.launch(1, 1);
        uint32_t number = program.begin(1, 1);
        begun = true;
        usleep(20000);
        program.end(number);
    });
    while (!begun) usleep(50);
    return late;
}

/* Copies and clearings that fail once are made again. */
void trouble(Program program) {
    for (int turn = 0; turn < 600; ++turn) {
        if (turn % 200 == 50) copies_fail = 1;
        if (turn % 200 == 150) clearings_fail = 1;
        program.launch(1, 1);
    }
}

/* Patches come for good with a context's first graph, and only then; and to no other context. */
void graphs(Program program) {
    MemoryCollector &collector = program.collector;
    auto tell = [](const char *what) { std::printf("%s: %d\n", what, patched.load()); };
    auto load = [&](uint64_t context, uint64_t module) {
        Sanitizer_ResourceModuleData data{};
        data.context = numbered<CUcontext>(context);
        data.module = numbered<CUmodule>(module);
        collector.module_loaded(data);
    };
    collector.record(false);
    load(1, 11);
    load(2, 12);
    program.launch(1, 1);
    tell("not watched");
    collector.record(true);
    program.launch(1, 1);
    program.launch(2, 2);
    tell("watched");
    collector.record(false);
    program.launch(1, 1);
    program.launch(2, 2);
    tell("no longer");
    capturing = true;
    program.launch(1, 1);
    capturing = false;
    tell("captured");
    program.replay({1, 1});
    program.launch(2, 2);
    load(1, 13);
    tell("one more module");
    collector.record(true);
    program.replay({1, 1, 1});
    program.replay({1, 2});
    tell("replayed while watched");
    collector.has().graph_goes(numbered<CUgraphExec>(1)); /* another gets its handle */
    collector.record(false);
    program.replay({1, 1});
    program.launch(2, 2);
    tell("replayed later");
}

} // namespace

int main(int, char **arguments) {
    const std::string what = arguments[2];
    std::string settings = "{\"cuda.memory\": {\"level\": \"touch\", \"device_bytes\": \"1048576\"}}";
    if (what == "graphs") settings.insert(settings.size() - 2, ", \"patches\": \"switched\"");
    MemoryCollector &collector = *new MemoryCollector(arguments[1], 0, 0, "patches", MemoryOptions::from(settings)); /* for good, as in programs */
    MemoryCollector::instance = &collector;
    collector.callbacks = 1;
    stand_in(collector);
    collector.record(true);
    collector.start();
    collector.has().allocated(PAGE, PAGE_BYTES, 0, "device");
    Program program{collector};
    std::thread late;
    if (what == "streams") streams(program);
    else if (what == "failed") failed(program);
    else if (what == "contexts") contexts(program);
    else if (what == "closing") late = closing(program);
    else if (what == "graphs") graphs(program);
    else trouble(program);
    collector.close();
    if (late.joinable()) late.join();
    return 0;
}
