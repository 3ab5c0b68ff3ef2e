/* The ids of texts that CUPTI's records give as numbers or as C strings. For one thread at a time. */
#ifndef PASTA_ACTIVITY_TEXTS_H
#define PASTA_ACTIVITY_TEXTS_H

#include "chosen_calls.h"
#include "cuda_text.h"
#include "cupti_library.h"
#include "table_writer.h"

#include <vector>

namespace pasta {

/* Each text is built once: a record costs a look into an array or a cache. */
class ActivityTexts {
  public:
    ActivityTexts(Ring &into, const Cupti &library) : ring(into), cupti(library) {
        for (const char *name : {"unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"})
            copies.push_back(id(name));
        for (const char *name : {"unknown", "pageable", "pinned", "device", "array", "managed", "device_static", "managed_static"})
            memories.push_back(id(name));
        for (const char *name : {"unknown", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"})
            syncs.push_back(id(name));
    }

    uint32_t id(std::string_view text) { return ring.text_id(text); }

    uint32_t copy_kind(size_t kind) const { return copies[kind < copies.size() ? kind : 0]; }
    uint32_t memory_kind(size_t kind) const { return memories[kind < memories.size() ? kind : 0]; }
    uint32_t sync_kind(size_t kind) const { return syncs[kind < syncs.size() ? kind : 0]; }

    uint32_t space(const CUpti_ActivityMemory4 &change) { return id(space_name(change)); }

    uint32_t call(CUpti_CallbackDomain domain, CUpti_CallbackId call_id) {
        std::vector<uint32_t> &known = calls[domain == CUPTI_CB_DOMAIN_RUNTIME_API];
        if (call_id >= known.size()) known.resize(call_id + 1);
        if (!known[call_id]) known[call_id] = id(call_name(domain, call_id));
        return known[call_id];
    }

    /* The demangled name; by its bytes, as the place of a name may come to hold another. */
    uint32_t kernel(const char *mangled) {
        if (!mangled) return id("unknown kernel");
        std::string_view key(mangled);
        uint64_t hash = hash_bytes(key.data(), key.size());
        if (const uint32_t *known = kernels.find(key, hash)) return *known;
        uint32_t fresh = id(demangled(mangled));
        kernels.add(key, hash, fresh);
        return fresh;
    }

  private:
    Ring &ring;
    const Cupti &cupti;
    std::vector<uint32_t> copies, memories, syncs, calls[2];
    Cache<uint32_t> kernels;

    static const char *space_name(const CUpti_ActivityMemory4 &change) {
        if (change.memoryPoolConfig.memoryPoolType != CUPTI_ACTIVITY_MEMORY_POOL_TYPE_INVALID) return "pool";
        switch (change.memoryKind) {
        case CUPTI_ACTIVITY_MEMORY_KIND_PINNED: return "pinned";
        case CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE: return "host";
        case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED:
        case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC: return "managed";
        default: return "device";
        }
    }

    std::string_view call_name(CUpti_CallbackDomain domain, CUpti_CallbackId call_id) const {
        const char *name = nullptr;
        if (cupti.callback_name(domain, call_id, &name) != CUPTI_SUCCESS || !name) return "unknown call";
        return domain == CUPTI_CB_DOMAIN_RUNTIME_API ? without_version(name) : name;
    }
};

} // namespace pasta

#endif
