/* Whether records follow launches. A client that comes later may take CUPTI's buffers without a
 * word to the one that was there: what is left of it are the callbacks. */
#ifndef PASTA_LAUNCH_WATCH_H
#define PASTA_LAUNCH_WATCH_H

#include "chosen_calls.h"
#include "cupti_library.h"

#include <algorithm>
#include <atomic>
#include <vector>

namespace pasta {

/* Looks out for a launch, then for a record of work; then, after ever longer pauses, again, as a
 * launch that is looked for costs a call back. What is not said to be for any thread is for the
 * collector's. */
class LaunchWatch {
  public:
    explicit LaunchWatch(const Cupti &library) : cupti(library) {}

    /* `always`: launches are to call back for others too. */
    void start(CUpti_SubscriberHandle with, bool always) {
        subscriber = with;
        stays = always;
        for (CUpti_CallbackId id = 1; id < CUPTI_DRIVER_TRACE_CBID_SIZE; ++id) {
            const char *name = nullptr;
            if (cupti.callback_name(CUPTI_CB_DOMAIN_DRIVER_API, id, &name) == CUPTI_SUCCESS && name && launches(name))
                calls.push_back(id);
        }
        look_out(true);
    }

    /* For any thread. */
    void saw_launch() { launched.store(true, std::memory_order_relaxed); }

    void saw_records() { launched.store(false, std::memory_order_relaxed); }

    /* To be called again and again, in even intervals. */
    void tick() {
        if (stays) return;
        if (looking && launched.load(std::memory_order_relaxed)) {
            look_out(false);
            ticks_left = pause;
            pause = std::min(2 * pause, MOST_TICKS);
        } else if (!looking && !waits() && ticks_left-- == 0) {
            look_out(true);
        }
    }

    /* Whether there was a launch and since then no record. */
    bool waits() const { return launched.load(std::memory_order_relaxed); }

  private:
    static constexpr int MOST_TICKS = 32;
    const Cupti &cupti;
    CUpti_SubscriberHandle subscriber = nullptr;
    std::vector<CUpti_CallbackId> calls;
    std::atomic<bool> launched{false};
    bool looking = false, stays = false;
    int pause = 1, ticks_left = 0;

    void look_out(bool on) {
        looking = on;
        for (CUpti_CallbackId id : calls) cupti.enable_callback(on, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id);
    }
};

} // namespace pasta

#endif
