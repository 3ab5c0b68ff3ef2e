/* Native stacks of launches, for CUPTI's records, which come later and on another thread. */
#ifndef PASTA_LAUNCH_STACKS_H
#define PASTA_LAUNCH_STACKS_H

#include "chosen_calls.h"
#include "cupti_library.h"
#include "native_stacks.h"

namespace pasta {

/* For any thread. */
class LaunchStacks {
  public:
    NativeStacks stacks;

    void start(const Cupti &cupti, CUpti_SubscriberHandle subscriber) {
        stacks.leave_out(CodeOf({"libcuda.so", "libcupti.so"}));
        enable(cupti, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_SIZE);
        enable(cupti, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_SIZE);
    }

    /* A call that the runtime makes of the driver has the stack of the call of the runtime. */
    void called(CUpti_CallbackDomain domain, const CUpti_CallbackData &call) {
        static thread_local uint64_t of_runtime = 0;
        uint64_t stack = 0;
        if (call.callbackSite == CUPTI_API_ENTER) {
            stack = of_runtime ? of_runtime : stacks.here();
            remember(call.correlationId, stack);
        }
        if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) of_runtime = stack;
    }

    /* The stack of the call of which a record tells; 0: not known. */
    uint64_t of(uint32_t correlation) {
        std::lock_guard<std::mutex> guard(lock);
        for (auto *calls : {&recent, &before})
            if (auto known = calls->find(correlation); known != calls->end()) return known->second;
        return 0;
    }

  private:
    static constexpr size_t MOST = 1 << 17; /* of each; records are far less late */
    std::mutex lock;
    std::unordered_map<uint32_t, uint64_t> recent, before; /* by correlation */

    void remember(uint32_t correlation, uint64_t stack) {
        std::lock_guard<std::mutex> guard(lock);
        if (recent.size() == MOST) before = std::exchange(recent, {});
        recent.emplace(correlation, stack);
    }

    static void enable(const Cupti &cupti, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain, CUpti_CallbackId end) {
        for (CUpti_CallbackId id = 1; id < end; ++id) {
            const char *name = nullptr;
            if (cupti.callback_name(domain, id, &name) == CUPTI_SUCCESS && name && starts_work(name) && has_any(name, {"Launch"}))
                cupti.enable_callback(1, subscriber, domain, id);
        }
    }
};

} // namespace pasta

#endif
