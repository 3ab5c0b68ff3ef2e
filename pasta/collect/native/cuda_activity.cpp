/* The collector `cuda`: what CUPTI's activity records tell, as rows of the channel.
 *
 * CUDA loads this library into any program that it initialises (CUDA_INJECTION64_PATH), and NVTX
 * into any that marks ranges (NVTX_INJECTION64_PATH). CUPTI fills buffers on the program's threads;
 * a thread of the collector turns them into rows. */
#include "activity_buffers.h"
#include "activity_rows.h"
#include "cupti_clients.h"
#include "cupti_library.h"
#include "launch_watch.h"
#include "settings.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

namespace pasta {
namespace {

constexpr auto FLUSH_EVERY = std::chrono::milliseconds(100);

Cupti cupti;
ActivityBuffers &buffers = *new ActivityBuffers; /* CUPTI may come with one at the very end */
FinishedRanges &ranges = *new FinishedRanges;    /* threads may outlive main */
ActivityRows *rows = nullptr;                    /* the reader's, once that runs */
LaunchWatch watch(cupti);
LaunchStacks *stacks = nullptr; /* where they are asked for */
CUpti_SubscriberHandle subscriber;
std::thread reader;
std::atomic<bool> ending{false}, forked{false}, managed_asked{false};
std::atomic<CUptiResult> managed_result{CUPTI_SUCCESS};

void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *most_records) {
    *buffer = forked.load() ? nullptr : buffers.take_empty();
    *size = *buffer ? ActivityBuffers::BYTES : 0;
    *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t, size_t used) {
    if (forked.load()) return;
    size_t dropped = 0;
    if (cupti.dropped_records(context, stream, &dropped) != CUPTI_SUCCESS) dropped = 0;
    buffers.put_filled({buffer, used}, dropped);
}

uint64_t clock() { return rows->clock(); }

void read(const std::vector<ActivityBuffers::Filled> &delivered) {
    uint64_t before = rows->work();
    for (auto [buffer, used] : delivered) {
        CUpti_Activity *record = nullptr;
        CUptiResult result;
        while ((result = cupti.next_record(buffer, used, &record)) == CUPTI_SUCCESS) rows->add(*record);
        if (result != CUPTI_ERROR_MAX_LIMIT_REACHED) rows->count_loss("buffers of records that were not read to their end: " + cupti.reason(result), 1);
        buffers.put_empty(buffer);
    }
    if (rows->work() > before) watch.saw_records();
    for (const FinishedRange &range : ranges.take()) rows->add(range);
    if (uint64_t refused = ranges.take_refused()) rows->count_loss("NVTX ranges that came faster than they could be written: left out", refused);
    if (size_t dropped = buffers.take_dropped()) rows->count_loss("records that CUPTI dropped: its buffers were full", dropped);
    if (CUptiResult result = managed_result.exchange(CUPTI_SUCCESS))
        rows->count_loss("migrations and faults of managed memory cannot be recorded: " + cupti.reason(result), 1);
    rows->write();
}

void keep_reading() {
    auto flushed = std::chrono::steady_clock::now();
    while (!ending.load()) {
        read(buffers.take_filled(FLUSH_EVERY));
        if (std::chrono::steady_clock::now() - flushed < FLUSH_EVERY) continue;
        cupti.flush_all(0);
        watch.tick();
        flushed = std::chrono::steady_clock::now();
    }
}

void start_reader() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
    reader = std::thread(&keep_reading);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_setname_np(reader.native_handle(), "pasta-cuda");
}

void at_exit() {
    if (forked.load()) return;
    cupti.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    ending.store(true);
    buffers.stop();
    reader.join();
    read(buffers.take_filled(std::chrono::seconds(0)));
    if (watch.waits()) {
        std::string what = rows->work() ? "records of CUDA ended before the program's launches did"
                                        : "nothing of CUDA is recorded: launches brought no record";
        rows->count_loss(what + "; another client has taken CUPTI's buffers: " + cupti_clients(), 1);
    }
    if (uint64_t refused = rows->refused_texts()) rows->count_loss("names beyond the first 32 MB of different ones: left out", refused);
    if (uint64_t open = ranges.still_open()) rows->count_loss("NVTX ranges without an end: left out", open);
    rows->write();
}

void in_child() {
    forked.store(true);
    if (reader.joinable()) reader.detach(); /* it is the parent's alone */
}

void enable(CUpti_ActivityKind kind, const char *what) {
    CUptiResult result = cupti.enable(kind);
    if (result != CUPTI_SUCCESS)
        rows->count_loss(std::string(what) + " cannot be recorded: " + cupti.reason(result), 1);
}

/* CUPTI can be asked for it only once there is a context. */
void enable_managed_memory() {
    if (managed_asked.exchange(true)) return;
    std::vector<CUpti_ActivityUnifiedMemoryCounterConfig> all;
    for (int kind = 1; kind < CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_COUNT; ++kind)
        all.push_back({CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_ALL_DEVICES,
                       static_cast<CUpti_ActivityUnifiedMemoryCounterKind>(kind), 0, 1});
    CUptiResult result = cupti.configure_managed_memory(all.data(), static_cast<uint32_t>(all.size()));
    if (result == CUPTI_SUCCESS) result = cupti.enable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER);
    managed_result.store(result);
}

void CUPTIAPI called_back(void *, CUpti_CallbackDomain domain, CUpti_CallbackId, const void *data) {
    if (forked.load()) return;
    if (domain == CUPTI_CB_DOMAIN_RESOURCE) return enable_managed_memory();
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API) watch.saw_launch();
    if (stacks) stacks->called(domain, *static_cast<const CUpti_CallbackData *>(data));
}

void enable_calls(CUpti_CallbackDomain domain, decltype(cupti.enable_runtime_call) enable_call, CUpti_CallbackId end, Calls calls) {
    for (CUpti_CallbackId id = 1; id < end; ++id) {
        const char *name = nullptr;
        if (cupti.callback_name(domain, id, &name) == CUPTI_SUCCESS && name && is_chosen(name, calls)) enable_call(id, 1);
    }
}

/* Return why nothing can be recorded, or nothing. A subscriber keeps away clients that ask first. */
std::string take_cupti() {
    CUptiResult result = cupti.subscribe(&subscriber, &called_back, nullptr);
    if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) return "another client holds CUPTI: " + cupti_clients();
    if (result != CUPTI_SUCCESS) return "CUPTI takes no subscriber: " + cupti.reason(result);
    result = cupti.register_clock(&clock);
    if (result != CUPTI_SUCCESS) return "CUPTI takes no clock: " + cupti.reason(result);
    uint8_t zeroed = 1;
    size_t bytes = sizeof(zeroed);
    cupti.set_attribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &bytes, &zeroed);
    cupti.set_thread_id_type(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
    result = cupti.register_buffers(&give_buffer, &take_buffer);
    return result == CUPTI_SUCCESS ? "" : "CUPTI takes no buffers: " + cupti.reason(result);
}

void watch_stacks() {
    auto *made = new LaunchStacks;
    made->start(cupti, subscriber);
    rows->watch(*made);
    stacks = made;
}

void enable_all(const std::string &level) {
    enable(CUPTI_ACTIVITY_KIND_DEVICE, "devices");
    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernels");
    enable(CUPTI_ACTIVITY_KIND_MEMCPY, "copies");
    enable(CUPTI_ACTIVITY_KIND_MEMCPY2, "copies between devices");
    enable(CUPTI_ACTIVITY_KIND_MEMSET, "memsets");
    Calls calls = Calls::THAT_START_WORK;
    if (level != "kernels") {
        calls = Calls::THAT_TAKE_TIME;
        enable(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "synchronisations");
        enable(CUPTI_ACTIVITY_KIND_CONTEXT, "contexts");
        enable(CUPTI_ACTIVITY_KIND_MEMORY2, "allocations");
    }
    enable_calls(CUPTI_CB_DOMAIN_RUNTIME_API, cupti.enable_runtime_call, CUPTI_RUNTIME_TRACE_CBID_SIZE, calls);
    enable_calls(CUPTI_CB_DOMAIN_DRIVER_API, cupti.enable_driver_call, CUPTI_DRIVER_TRACE_CBID_SIZE, calls);
    cupti.enable_callback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
}

} // namespace
} // namespace pasta

using namespace pasta;

extern "C" {

/* Called by CUDA when a program initialises it. What fails here is counted, never told to CUDA: the
 * program goes on as if nobody looked. */
int InitializeInjection(void) {
    const char *folder = std::getenv("PASTA_CHANNEL"), *collect = std::getenv("PASTA_COLLECT");
    if (!folder || !collect || rows) return 1;
    std::string settings = collect;
    std::optional<std::string> level = json_text(settings, "cuda", "level");
    if (!level) return 1;
    std::string failure = cupti.load();
    auto *made = new ActivityRows(folder, environment_rank(), json_number(settings, "offset"), cupti);
    if (!made->opened()) return 1;
    rows = made;
    if (failure.empty()) failure = take_cupti();
    if (!failure.empty()) {
        rows->count_loss("nothing of CUDA is recorded: " + failure, 1);
        rows->write();
        return 1;
    }
    enable_all(*level);
    if (json_flag(settings, "cuda", "stacks")) watch_stacks();
    watch.start(subscriber, stacks);
    start_reader();
    pthread_atfork(nullptr, nullptr, &in_child);
    std::atexit(&at_exit);
    return 1;
}

/* Called by NVTX at a program's first range, be it before or after CUDA is used. */
int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t)) {
    const char *collect = std::getenv("PASTA_COLLECT");
    if (!collect || !json_text(collect, "cuda", "level")) return 0;
    static const int64_t offset = json_number(collect, "offset");
    static auto now = [] { return static_cast<int64_t>(pasta_clock(CLOCK_MONOTONIC)) + offset; };
    NvtxRanges::clock = [] {
        if (!forked.load()) ranges.begin();
        return now();
    };
    NvtxRanges::ended = [](const NvtxRange &range) {
        if (!forked.load()) ranges.end(range, now());
    };
    return NvtxRanges::install(export_table);
}
}
