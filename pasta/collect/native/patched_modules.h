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

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pasta {

/* How a context's kernels stand: none bears patches, all do, or only some, as another thread is at them. */
enum class Patches { NONE, ALL, SOME };

class PatchedModules {
  public:
    PatchedModules(const MemoryOptions &asked, Sanitizer &calls, const char *its_file) : options(asked), call(calls), file(its_file) {}

    void loaded(CUcontext context, CUmodule module) {
        auto mine = of(context);
        mine->tell({module, true});
        bring(context, *mine);
    }

    /* Return once no other thread is at the module, which goes then. */
    void unloads(CUcontext context, CUmodule module) {
        auto mine = of(context);
        mine->tell({module, false});
        for (uint32_t attempt = 0; mine->is_held(module); ++attempt) {
            if (attempt == MOST_WAITS_AT_ENDS) {
                ++unloaded_while_held;
                return;
            }
            usleep(WAIT_US);
        }
    }

    void ends(CUcontext context) {
        std::lock_guard<std::mutex> guard(lock);
        contexts.erase(context); /* another context may get this handle */
    }

    /* What launches of contexts to come begin with. */
    void begin_with(bool wanted) { initially = wanted; }

    /* Have launches in a context watched from the one that begins, or not; of one thread at a time. Where
     * patches stay, launches bear them either way. To set or remove them takes until all that runs has ended, for which
     * a kernel may wait for the thread that is here: it is done once the context `is_idle`. */
    template <class IsIdle> Patches watch(CUcontext context, bool wanted, IsIdle is_idle) {
        auto mine = of(context);
        mine->want(wanted);
        if (!reach(context, *mine, MOST_WAITS, is_idle)) return Patches::SOME;
        return mine->watched ? Patches::ALL : Patches::NONE;
    }

    /* Have all kernels of a context bear patches for good, as a graph is made of what they are now. Where that
     * fails, since another thread is at patches or the context is never idle, none come or go there any more. */
    template <class IsIdle> void stay(CUcontext context, IsIdle is_idle) {
        auto mine = of(context);
        mine->stay();
        if (!reach(context, *mine, MOST_PATIENCE, is_idle)) mine->fixed = true;
    }

    /* Changes when patches are set: then code may lie elsewhere. */
    uint64_t times_patched() const { return patched; }

    /* Modules that went while another thread was at their patches. */
    uint64_t torn() const { return unloaded_while_held; }

    /* Contexts of which a graph was made while patches could not be set. */
    uint64_t without_switching() {
        std::lock_guard<std::mutex> guard(lock);
        return static_cast<uint64_t>(std::count_if(contexts.begin(), contexts.end(), [](const auto &entry) { return entry.second->fixed.load(); }));
    }

  private:
    struct News {
        CUmodule module;
        bool is_there;
    };

    struct Context {
        std::atomic<bool> watched{false}, behind{false}; /* what is wanted; whether some modules may not be at it */
        std::atomic<bool> fixed{false};                  /* patches neither come nor go any more */
        std::atomic<uint32_t> waits{0};                  /* since what is wanted changed */
        std::mutex lock;                                 /* guards changes of these and all below but the last two, never while CUDA is called */
        bool stays = false;
        std::vector<News> news;
        CUmodule held = nullptr; /* which may not go, as it is worked on */
        bool knows_patches = false;
        std::unordered_map<CUmodule, bool> bears_patches;

        void tell(News what) {
            std::lock_guard<std::mutex> guard(lock);
            news.push_back(what);
            behind = true;
        }

        void want(bool what) {
            std::lock_guard<std::mutex> guard(lock);
            if (watched == (what || stays)) return;
            watched = what || stays;
            behind = true;
            waits = 0;
        }

        void stay() {
            std::lock_guard<std::mutex> guard(lock);
            stays = true;
            if (watched.exchange(true)) return;
            behind = true;
            waits = 0;
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

        /* Do something to a module, unless it is to be left as it is; return whether it was done. */
        template <class Work> bool hold(CUmodule module, Work work) {
            {
                std::lock_guard<std::mutex> guard(lock);
                bool goes = std::any_of(news.begin(), news.end(), [&](const News &each) { return each.module == module && !each.is_there; });
                if (goes || fixed) return false;
                held = module;
            }
            work();
            std::lock_guard<std::mutex> guard(lock);
            held = nullptr;
            return true;
        }

        bool is_held(CUmodule module) {
            std::lock_guard<std::mutex> guard(lock);
            return held == module;
        }
    };

    static constexpr uint32_t WAIT_US = 50, MOST_WAITS = 400, MOST_WAITS_AT_ENDS = 4000; /* 20 ms; 0.2 s where a module goes */
    static constexpr uint32_t MOST_PATIENCE = 40000;                                     /* 2 s */
    const MemoryOptions &options;
    Sanitizer &call;
    const char *const file; /* which has the patches */
    std::atomic<uint64_t> patched{0}, unloaded_while_held{0};
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

    /* Whether all modules of a context are, within so many waits, at what is wanted. Launches are held up so
     * for `MOST_PATIENCE` in all, as a kernel may run for as long as the program does. */
    template <class IsIdle> bool reach(CUcontext handle, Context &context, uint32_t most_waits, IsIdle is_idle) {
        for (uint32_t attempt = 0; attempt < most_waits && !context.fixed; ++attempt) {
            if (!context.behind || (is_idle() && bring(handle, context))) return true;
            if (context.waits++ >= MOST_PATIENCE) return false;
            usleep(WAIT_US);
        }
        return false;
    }

    /* Bring all modules of a context to what is wanted; false: another thread is at patches, or they are fixed. */
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
            for (auto &[module, bears] : context.bears_patches)
                if (bears != wanted && (wanted ? set(handle, context, module) : remove(context, module))) bears = wanted;
        } while (!context.fixed && !context.is_settled(wanted));
        return !context.fixed;
    }

    /* Which patches go where is forgotten when they are removed, and costs where it is told and not used. */
    bool set(CUcontext handle, Context &context, CUmodule module) {
        if (!context.knows_patches && !call("patches", call.library.add_patches, file, handle)) return true;
        context.knows_patches = true;
        for (const auto &[instruction, name] : wanted_patches(options))
            if (!context.hold(module, [&] { call("patch", call.library.patch_instructions, instruction, module, name.c_str()); })) return false;
        if (!context.hold(module, [&] { call("patching", call.library.patch_module, module); })) return false;
        ++patched;
        return true;
    }

    bool remove(Context &context, CUmodule module) {
        return context.hold(module, [&] { call("removing patches", call.library.unpatch_module, module); });
    }
};

} // namespace pasta

#endif
