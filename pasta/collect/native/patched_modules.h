/* Which modules bear patches: kernels of the others run at their own speed, and are not watched. */
#ifndef PASTA_PATCHED_MODULES_H
#define PASTA_PATCHED_MODULES_H

#include "memory_bank.h"
#include "memory_patch_list.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

namespace pasta {

/* No thread waits here for one that patches a module: it may hold what that one needs of the driver. */
class PatchedModules {
  public:
    PatchedModules(const MemoryOptions &asked, Sanitizer &calls) : options(asked), call(calls) {}

    /* A module is there; `file` has the patches. */
    void loaded(const Sanitizer_ResourceModuleData &data, const char *file) {
        if (!has_patches(data.context, file)) return;
        auto module = std::make_shared<Module>(data.module);
        {
            std::lock_guard<std::mutex> guard(lock);
            modules[data.module] = module;
        }
        bring(*module);
    }

    void unloads(CUmodule module) {
        std::lock_guard<std::mutex> guard(lock);
        modules.erase(module);
    }

    void context_ends(CUcontext context) {
        std::lock_guard<std::mutex> guard(adding);
        contexts.erase(context); /* another context may get this handle */
    }

    /* Have the launches that begin from here on watched, or not; false: another thread is still at it. */
    bool watch(bool wanted) {
        if (watched.exchange(wanted) == wanted && !bringing) return true;
        std::vector<std::shared_ptr<Module>> all;
        {
            std::lock_guard<std::mutex> guard(lock);
            for (auto &[handle, module] : modules) all.push_back(module);
        }
        ++bringing;
        bool done = true;
        for (auto &module : all) done &= bring(*module);
        --bringing;
        return done;
    }

  private:
    struct Module {
        explicit Module(CUmodule its_handle) : handle(its_handle) {}

        const CUmodule handle;
        std::atomic<bool> patched{false};
        std::mutex lock; /* CUDA's calls for a module's patches are for one thread at a time */
    };

    const MemoryOptions &options;
    Sanitizer &call;
    std::atomic<bool> watched{false};
    std::atomic<int> bringing{0};
    std::mutex lock; /* guards the modules, never while CUDA is called */
    std::unordered_map<CUmodule, std::shared_ptr<Module>> modules;
    std::mutex adding;
    std::set<CUcontext> contexts; /* that know the patches */

    bool has_patches(CUcontext context, const char *file) {
        std::lock_guard<std::mutex> guard(adding);
        if (!contexts.count(context) && !call("patches", call.library.add_patches, file, context)) return false;
        contexts.insert(context);
        return true;
    }

    /* Bring a module to what is wanted by now; false: another thread does so. */
    bool bring(Module &module) {
        while (module.patched != watched) {
            std::unique_lock<std::mutex> mine(module.lock, std::try_to_lock);
            if (!mine) return false;
            bool wanted = watched;
            if (module.patched == wanted) continue;
            if (wanted) patch(module.handle);
            else call("removing patches", call.library.unpatch_module, module.handle);
            module.patched = wanted;
        }
        return true;
    }

    /* Which patches go where is forgotten when they are removed, and costs where it is told and not used. */
    void patch(CUmodule module) {
        for (const auto &[instruction, name] : wanted_patches(options))
            call("patch", call.library.patch_instructions, instruction, module, name.c_str());
        call("patching", call.library.patch_module, module);
    }
};

} // namespace pasta

#endif
