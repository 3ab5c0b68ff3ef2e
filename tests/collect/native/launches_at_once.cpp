/* Launches of several threads, with streams and contexts that come and go meanwhile, as callbacks tell of them.
 *
 *     launches_at_once CHANNEL streams|failed|contexts|closing|trouble|graphs
 *     launches_at_once CHANNEL maps MODULE
 *
 * Compute Sanitizer and the driver are stand-ins, and kernels run on the host: one reads as often as its grid has
 * blocks. The rows go to the channel. */
#include "memory_collector.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

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

/* A tensor map as drivers lay it out. */
CUresult encode(CUtensorMap *made, CUtensorMapDataType type, cuuint32_t rank, void *address, const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
                const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    static const std::map<CUtensorMapDataType, uint32_t> types{
        {CU_TENSOR_MAP_DATA_TYPE_UINT8, 0}, {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 10}, {CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, 7}, {CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 9}};
    TensorMap map{};
    map.words[0] = static_cast<uint32_t>(reinterpret_cast<uint64_t>(address));
    map.words[1] = static_cast<uint32_t>(reinterpret_cast<uint64_t>(address) >> 32);
    map.words[2] = (rank - 1) << 4 | types.at(type) << 7;
    for (uint32_t dimension = 0; dimension < rank; ++dimension) {
        map.words[8 + dimension] = static_cast<uint32_t>(sizes[dimension] - 1);
        map.words[dimension ? 14 : 13] |= (box[dimension] - 1) << (dimension ? 8 * (dimension - 1) : 24);
        if (!dimension) continue;
        map.words[2 + dimension] = static_cast<uint32_t>(strides[dimension - 1] >> 4);
        map.words[7] |= static_cast<uint32_t>(strides[dimension - 1] >> 36) << 4 * (dimension - 1);
    }
    std::memset(made, 0, sizeof(*made));
    std::memcpy(made, &map, sizeof(map));
    return CUDA_SUCCESS;
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
    cuda.encode_tensor_map = encode;
    cuda.capture_info = [](CUstream, CUstreamCaptureStatus *status, cuuint64_t *capture, CUgraph *graph, const CUgraphNode **, size_t *) {
        *status = capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
        *capture = 9;
        *graph = reinterpret_cast<CUgraph>(5);
        return CUDA_SUCCESS;
    };
    cuda.function_parameter = [](CUfunction, size_t number, size_t *offset, size_t *bytes) {
        *offset = 0;
        *bytes = 128;
        return number ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    };
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

/* Kernels of a module in a file, with tensor maps among their arguments or without; and in a graph, of which one of two that load is captured. */
void maps(Program program, const char *file) {
    MemoryCollector &collector = program.collector;
    std::ifstream opened(file, std::ios::binary);
    const std::vector<char> image(std::istreambuf_iterator<char>(opened), {});
    Sanitizer_ResourceModuleData module{};
    module.context = numbered<CUcontext>(1);
    module.module = numbered<CUmodule>(11);
    module.pCubin = image.data();
    module.cubinSize = image.size();
    collector.module_loaded(module);
    auto map_of = [](uint64_t address) {
        TensorMap map{};
        map.words[0] = static_cast<uint32_t>(address);
        map.words[1] = static_cast<uint32_t>(address >> 32);
        map.words[8] = 4096 - 1;
        map.words[13] = 255u << 24;
        return map;
    };
    auto launch = [&](const char *kernel, uint64_t function, uint64_t address, uint64_t other = 0) {
        TensorMap two[2] = {map_of(address), map_of(other)};
        void *each[] = {two};
        cuLaunchKernel_params parameters{};
        parameters.kernelParams = each;
        Sanitizer_CallbackData call{};
        call.functionParams = &parameters;
        call.callbackSite = SANITIZER_API_ENTER;
        collector.maps().called(SANITIZER_CBID_DRIVER_API_cuLaunchKernel, call);
        Sanitizer_LaunchData data = Program::launch_data(1, 1, ++launched);
        data.module = module.module;
        data.function = numbered<CUfunction>(function);
        data.functionName = kernel;
        told = nullptr;
        if (!capturing) collector.launch_begins(data); /* a captured kernel begins in no launch */
        if (!capturing) program.end(launched);
        call.callbackSite = SANITIZER_API_EXIT;
        collector.maps().called(SANITIZER_CBID_DRIVER_API_cuLaunchKernel, call);
    };
    launch("loads", 2, PAGE + (1 << 20));
    launch("stores", 3, PAGE + (1 << 20));
    launch("adds", 4, PAGE + (1 << 20));
    launch("loads", 2, PAGE + PAGE_BYTES - 512); /* beyond all that there is */
    launch("loads", 2, PAGE + (1 << 20), PAGE + 7 * PAGE_BYTES); /* one of two */
    capturing = true;
    launch("loads", 2, PAGE + (1 << 20));
    capturing = false;
    auto replay = [&] {
        Sanitizer_GraphLaunchData whole{};
        whole.context = numbered<CUcontext>(1);
        whole.graphExec = numbered<CUgraphExec>(1);
        collector.graph_begins(whole);
        Sanitizer_GraphNodeLaunchData node{};
        node.nodeType = CU_GRAPH_NODE_TYPE_KERNEL;
        node.launchData = Program::launch_data(1, 1, ++launched);
        node.launchData.module = module.module;
        for (uint64_t function : {2, 4, 2}) {
            node.launchData.function = numbered<CUfunction>(function);
            node.launchData.functionName = function == 2 ? "loads" : "adds";
            collector.node_begins(node);
        }
        run_kernel(const_cast<Slot &>(*told), launched);
        collector.graph_ends();
    };
    collector.maps().graph_is_made(numbered<CUgraph>(5), numbered<CUgraphExec>(1));
    replay();
    cuGraphExecUpdate_v2_params update{};
    update.hGraphExec = numbered<CUgraphExec>(1);
    Sanitizer_CallbackData call{};
    call.functionParams = &update;
    call.callbackSite = SANITIZER_API_ENTER;
    collector.maps().called(SANITIZER_CBID_DRIVER_API_cuGraphExecUpdate_v2, call);
    replay();
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
    else if (what == "maps") maps(program, arguments[3]);
    else trouble(program);
    collector.close();
    if (late.joinable()) late.join();
    return 0;
}
