/* A CUPTI without a GPU: it lets a program under the collector launch (`fake_launch`), and FAKE_CUPTI
 * says what goes wrong: `busy`, `taken` (another has the buffers), `taken-later`, `full`, `unread` (a
 * buffer's second record). With `calls`
 * there is a record of each launching call, too. */
#include <cupti.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>

static std::mutex guard;
static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static CUpti_TimestampCallbackFunc now;
static CUpti_CallbackFunc call_back;
static bool looks_out;
static uint8_t *buffer;
static size_t room, used;
static uint32_t launches;

static bool goes_wrong(std::string_view how) {
    const char *told = std::getenv("FAKE_CUPTI");
    return told && how == told;
}

static void deliver() {
    if (buffer && complete && used) {
        complete(nullptr, 0, buffer, room, used);
        buffer = nullptr;
    }
}

/* Every record has the room of the largest. */
static void append(const void *record, size_t bytes) {
    if (buffer && used + sizeof(CUpti_ActivityKernel10) > room) deliver();
    if (!buffer) {
        size_t most = 0;
        used = 0;
        request(&buffer, &room, &most);
        for (size_t at = 0; at < room; ++at)
            if (buffer[at]) std::abort(); /* it was to be zeroed */
    }
    std::memcpy(buffer + used, record, bytes);
    used += sizeof(CUpti_ActivityKernel10);
}

extern "C" {

CUptiResult cuptiGetResultString(CUptiResult, const char **text) {
    *text = "FAKE";
    return CUPTI_SUCCESS;
}
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *, CUpti_CallbackFunc function, void *) {
    call_back = function;
    return goes_wrong("busy") ? CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED : CUPTI_SUCCESS;
}
CUptiResult cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle, CUpti_CallbackDomain domain, CUpti_CallbackId) {
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API) looks_out = on;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain, uint32_t id, const char **name) {
    *name = id == 1 ? "cuLaunchKernel" : "cuCtxGetId";
    return CUPTI_SUCCESS;
}
CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc function) {
    now = function;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc give, CUpti_BuffersCallbackCompleteFunc take) {
    request = give, complete = take;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute, size_t *, void *) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
    bool refused = kind == CUPTI_ACTIVITY_KIND_MEMSET || kind == CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER;
    return refused ? CUPTI_ERROR_NOT_COMPATIBLE : CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId, uint8_t) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId, uint8_t) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityConfigureUnifiedMemoryCounter(CUpti_ActivityUnifiedMemoryCounterConfig *, uint32_t) {
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t) {
    std::lock_guard<std::mutex> lock(guard);
    deliver();
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t *from, size_t bytes, CUpti_Activity **record) {
    uint8_t *next = *record ? reinterpret_cast<uint8_t *>(*record) + sizeof(CUpti_ActivityKernel10) : from;
    if (next >= from + bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    if (*record && goes_wrong("unread")) return CUPTI_ERROR_INVALID_KIND;
    *record = reinterpret_cast<CUpti_Activity *>(next);
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t *dropped) {
    *dropped = goes_wrong("full") ? 3 : 0;
    return CUPTI_SUCCESS;
}

void fake_context() { call_back(nullptr, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED, nullptr); }

void fake_launch() {
    CUpti_CallbackData call{};
    call.callbackSite = CUPTI_API_ENTER, call.correlationId = launches + 1;
    if (looks_out) call_back(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, 1, &call);
    if (goes_wrong("taken") || (goes_wrong("taken-later") && launches == 5)) return;
    std::lock_guard<std::mutex> lock(guard);
    CUpti_ActivityKernel10 kernel{};
    kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, kernel.name = "_Z3addv", kernel.correlationId = ++launches;
    kernel.start = now(), kernel.end = kernel.start + 10;
    append(&kernel, sizeof(kernel));
    CUpti_ActivityAPI record{};
    record.kind = CUPTI_ACTIVITY_KIND_DRIVER, record.cbid = 1, record.correlationId = launches;
    record.start = now(), record.end = record.start + 10;
    if (goes_wrong("calls")) append(&record, sizeof(record));
}
}
