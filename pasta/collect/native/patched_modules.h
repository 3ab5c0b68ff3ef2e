/* Which modules bear patches: kernels of the others run at their own speed, and are not watched.
 *
 * Patches are set and removed in callbacks of a module's own context, where the driver has what that takes,
 * by one thread at a time, as Compute Sanitizer demands. No thread waits long for another here: that one may
 * wait for what this one holds of the driver. */
#ifndef PASTA_PATCHED_MODULES_H
#define PASTA_PATCHED_MODULES_H

#include "memory_bank.h"
#include "memory_patch_list.h"

#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pasta {

class PatchedModules {
  public:
    PatchedModules(const MemoryOptions &asked, Sanitizer &calls, const char *its_file) : options(asked), call(calls), file(its_file) {}

    void loaded(CUcontext context, CUmodule module) {
        auto mine = of(context);
        mine->tell({module, true});
        bring(context, *mine);
    }

    void unloads(CUcontext context, CUmodule module) { of(context)->tell({module, false}); }

    void ends(CUcontext context) {
        std::lock_guard<std::mutex> guard(lock);
        contexts.erase(context); /* another context may get this handle */
    }

    /* What launches of contexts to come begin with. */
    void begin_with(bool wanted) { initially = wanted; }

    /* Have launches in a context watched from the one that begins, or not; false: another thread is at patches,
     * and not all modules bear theirs yet. Of one thread at a time. */
    bool watch(CUcontext context, bool wanted) {
        auto mine = of(context);
        mine->want(wanted);
        for (uint32_t attempt = 0; attempt < MOST_WAITS; ++attempt) {
            if (!mine->behind || bring(context, *mine)) return true;
            usleep(WAIT_US);
        }
        return false;
    }

    /* Changes when patches are set: then code may lie elsewhere. */
    uint64_t times_patched() const { return patched; }

  private:
    struct News {
        CUmodule module;
        bool is_there;
    };

    struct Context {
        std::atomic<bool> watched{false}, behind{false}; /* what is wanted; whether some modules may not be at it */
        std::mutex lock;                                 /* guards changes of these and the news, never while CUDA is called */
        std::vector<News> news;
        bool knows_patches = false;
        std::unordered_map<CUmodule, bool> bears_patches;

        void tell(News what) {
            std::lock_guard<std::mutex> guard(lock);
            news.push_back(what);
            behind = true;
        }

        void want(bool what) {
            if (watched == what) return;
            std::lock_guard<std::mutex> guard(lock);
            watched = what;
            behind = true;
        }

        std::vector<News> take_news() {
            std::lock_guard<std::mutex> guard(lock);
            return std::exchange(news, {});
        }

        /* Whether nothing has changed since modules were brought to `what`: then none is behind. */
        bool is_settled(bool what) {
            std::lock_guard<std::mutex> guard(lock);
            if (!news.empty() || watched != what) return false;
            behind = false;
            return true;
        }
    };

    static constexpr uint32_t MOST_WAITS = 400, WAIT_US = 50; /* 20 ms */
    const MemoryOptions &options;
    Sanitizer &call;
    const char *const file; /* which has the patches */
    std::atomic<uint64_t> patched{0};
    std::atomic<bool> initially{false};
    std::mutex lock; /* guards which contexts there are, never while CUDA is called */
    std::unordered_map<CUcontext, std::shared_ptr<Context>> contexts;
    std::mutex patching; /* held while CUDA is called, and never waited for */

    std::shared_ptr<Context> of(CUcontext context) {
        std::lock_guard<std::mutex> guard(lock);
        auto &known = contexts[context];
        if (!known) {
            known = std::make_shared<Context>();
            known->watched = initially.load();
        }
        return known;
    }

    /* Bring all modules of a context to what is wanted; false: another thread is at patches. */
    bool bring(CUcontext handle, Context &context) {
        std::unique_lock<std::mutex> mine(patching, std::try_to_lock);
        if (!mine) return false;
        bool wanted;
        do {
            wanted = context.watched;
            for (const News &each : context.take_news()) {
                if (each.is_there) context.bears_patches[each.module] = false;
                else context.bears_patches.erase(each.module);
            }
            for (auto &[module, bears] : context.bears_patches) {
                if (bears == wanted) continue;
                bears = wanted;
                if (wanted) set(handle, context, module);
                else call("removing patches", call.library.unpatch_module, module);
            }
        } while (!context.is_settled(wanted));
        return true;
    }

    /* Which patches go where is forgotten when they are removed, and costs where it is told and not used. */
    void set(CUcontext handle, Context &context, CUmodule module) {
        if (!context.knows_patches && !call("patches", call.library.add_patches, file, handle)) return;
        context.knows_patches = true;
        for (const auto &[instruction, name] : wanted_patches(options))
            call("patch", call.library.patch_instructions, instruction, module, name.c_str());
        call("patching", call.library.patch_module, module);
        ++patched;
    }
};

} // namespace pasta

#endif
