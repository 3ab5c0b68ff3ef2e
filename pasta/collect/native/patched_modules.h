/* Which modules bear patches: kernels of the others run at their own speed, and are not watched. */
#ifndef PASTA_PATCHED_MODULES_H
#define PASTA_PATCHED_MODULES_H

#include "memory_bank.h"
#include "memory_patch_list.h"

#include <atomic>
#include <mutex>
#include <set>
#include <unordered_map>

namespace pasta {

class PatchedModules {
  public:
    PatchedModules(const MemoryOptions &asked, Sanitizer &calls) : options(asked), call(calls) {}

    /* A module is there; `file` has the patches. */
    void loaded(const Sanitizer_ResourceModuleData &module, const char *file) {
        std::lock_guard<std::mutex> guard(lock);
        if (!contexts.count(module.context) && !call("patches", call.library.add_patches, file, module.context)) return;
        contexts.insert(module.context);
        bring(module.module, modules[module.module], watched);
    }

    void unloads(CUmodule module) {
        std::lock_guard<std::mutex> guard(lock);
        modules.erase(module);
    }

    void context_ends(CUcontext context) {
        std::lock_guard<std::mutex> guard(lock);
        contexts.erase(context); /* another context may get this handle */
    }

    /* Have the launches that begin from here on watched, or not. */
    void watch(bool wanted) {
        if (watched == wanted) return;
        std::lock_guard<std::mutex> guard(lock);
        watched = wanted;
        for (auto &[module, patched] : modules) bring(module, patched, wanted);
    }

  private:
    const MemoryOptions &options;
    Sanitizer &call;
    std::mutex lock; /* CUDA's calls for patches are for one thread at a time */
    std::atomic<bool> watched{false};
    std::set<CUcontext> contexts; /* that know the patches */
    std::unordered_map<CUmodule, bool> modules;

    void bring(CUmodule module, bool &patched, bool wanted) {
        if (patched == wanted) return;
        patched = wanted;
        if (!wanted) {
            call("removing patches", call.library.unpatch_module, module);
            return;
        }
        for (const auto &[instruction, patch] : wanted_patches(options)) /* which go with the patches, and cost by themselves */
            call("patch", call.library.patch_instructions, instruction, module, patch.c_str());
        call("patching", call.library.patch_module, module);
    }
};

} // namespace pasta

#endif
