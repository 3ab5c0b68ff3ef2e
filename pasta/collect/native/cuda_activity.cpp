/* The collector `cuda`: what CUPTI's activity records tell, as rows of the channel.
 *
 * CUDA loads this library into any program that it initialises (CUDA_INJECTION64_PATH). CUPTI hands
 * over full buffers on a thread of its own; there they become rows. */
#include "activity_rows.h"
#include "cupti_library.h"
#include "settings.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

namespace pasta {
namespace {

constexpr size_t BUFFER_BYTES = 1 << 20;
constexpr uint32_t FLUSH_MS = 100;

Cupti cupti;
ActivityRows *rows = nullptr;
std::mutex writing; /* CUPTI's thread, and whoever flushes at the end */
std::atomic<bool> forked{false};
CUpti_SubscriberHandle subscriber;

void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *most_records) {
    *buffer = static_cast<uint8_t *>(std::aligned_alloc(8, BUFFER_BYTES));
    *size = *buffer ? BUFFER_BYTES : 0;
    *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t, size_t used) {
    if (!forked.load()) {
        std::lock_guard<std::mutex> guard(writing);
        for (CUpti_Activity *record = nullptr;
             cupti.next_record(buffer, used, &record) == CUPTI_SUCCESS;)
            rows->add(*record);
        size_t dropped = 0;
        if (cupti.dropped_records(context, stream, &dropped) == CUPTI_SUCCESS && dropped)
            rows->count_loss("records that CUPTI dropped: its buffers were full", dropped);
        rows->write();
    }
    std::free(buffer);
}

uint64_t clock() { return rows->clock(); }

void at_exit() {
    if (forked.load()) return;
    cupti.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    std::lock_guard<std::mutex> guard(writing);
    rows->finish();
}

void in_child() { forked.store(true); }

void enable(CUpti_ActivityKind kind, const char *what) {
    CUptiResult result = cupti.enable(kind);
    if (result != CUPTI_SUCCESS)
        rows->count_loss(std::string(what) + " cannot be recorded: " + cupti.reason(result), 1);
}

/* Whether a call starts, moves, waits for or makes something on a device; most calls ask or set. */
bool is_chosen(std::string_view name) {
    static const char *const words[] = {"Launch", "Memcpy",      "Memset",   "Malloc",    "MemAlloc", "Free",
                                        "HostAlloc", "Prefetch", "Synchronize", "WaitEvent", "EventRecord"};
    for (const char *word : words)
        if (name.find(word) != std::string_view::npos) return true;
    return false;
}

void enable_calls(CUpti_CallbackDomain domain, decltype(cupti.enable_runtime_call) enable_call, CUpti_CallbackId end) {
    for (CUpti_CallbackId id = 1; id < end; ++id) {
        const char *name = nullptr;
        if (cupti.callback_name(domain, id, &name) == CUPTI_SUCCESS && name && is_chosen(name)) enable_call(id, 1);
    }
}

std::string record_activity(const std::string &level) {
    CUptiResult result = cupti.subscribe(
        &subscriber, [](void *, CUpti_CallbackDomain, CUpti_CallbackId, const void *) {}, nullptr);
    if (result != CUPTI_SUCCESS)
        return "another client holds CUPTI (" + cupti.reason(result) +
               "): PyTorch's profiler, Nsight or Compute Sanitizer";
    cupti.set_thread_id_type(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
    if ((result = cupti.register_clock(&clock)) != CUPTI_SUCCESS)
        return "CUPTI takes no clock: " + cupti.reason(result);
    if ((result = cupti.register_buffers(&give_buffer, &take_buffer)) != CUPTI_SUCCESS)
        return "CUPTI takes no buffers: " + cupti.reason(result);
    enable(CUPTI_ACTIVITY_KIND_DEVICE, "devices");
    enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernels");
    enable(CUPTI_ACTIVITY_KIND_MEMCPY, "copies");
    enable(CUPTI_ACTIVITY_KIND_MEMCPY2, "copies between devices");
    enable(CUPTI_ACTIVITY_KIND_MEMSET, "memsets");
    enable(CUPTI_ACTIVITY_KIND_MARKER, "NVTX ranges");
    if (level != "kernels") {
        enable(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "synchronisations");
        enable(CUPTI_ACTIVITY_KIND_CONTEXT, "contexts");
        enable(CUPTI_ACTIVITY_KIND_MEMORY2, "allocations");
        enable_calls(CUPTI_CB_DOMAIN_RUNTIME_API, cupti.enable_runtime_call, CUPTI_RUNTIME_TRACE_CBID_SIZE);
        enable_calls(CUPTI_CB_DOMAIN_DRIVER_API, cupti.enable_driver_call, CUPTI_DRIVER_TRACE_CBID_SIZE);
    }
    cupti.flush_period(FLUSH_MS);
    return "";
}

} // namespace
} // namespace pasta

using namespace pasta;

/* Called by CUDA when a program initialises it. What fails here is counted, never told to CUDA: the
 * program goes on as if nobody looked. */
extern "C" int InitializeInjection(void) {
    const char *folder = std::getenv("PASTA_CHANNEL"), *collect = std::getenv("PASTA_COLLECT");
    if (!folder || !collect || rows) return 1;
    std::string settings = collect;
    std::optional<std::string> level = json_text(settings, "cuda", "level");
    if (!level) return 1;
    std::string missing = cupti.load();
    auto *made = new ActivityRows(folder, environment_rank(), json_number(settings, "offset"), cupti);
    if (!made->opened()) return 1;
    rows = made;
    std::string failure = missing.empty() ? record_activity(*level) : missing;
    if (!failure.empty()) {
        rows->count_loss("nothing of CUDA is recorded: " + failure, 1);
        rows->write();
        return 1;
    }
    pthread_atfork(nullptr, nullptr, &in_child);
    std::atexit(&at_exit);
    return 1;
}
