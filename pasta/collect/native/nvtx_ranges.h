/* NVTX ranges of the program, seen as the library that NVTX calls (NVTX_INJECTION64_PATH).
 *
 * The few layouts of NVTX 3's interface that this needs are written out here, so that its headers are
 * not needed. Ranges that are pushed and popped nest by thread; others are not looked at. */
#ifndef PASTA_NVTX_RANGES_H
#define PASTA_NVTX_RANGES_H

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace pasta {

struct NvtxAttributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const char *message; /* text, or what register_string returned */
};

/* An open range of a thread. */
struct NvtxRange {
    std::string name;
    int64_t began;
};

class NvtxRanges {
  public:
    /* Who is told of ranges: when one begins it says what time it is, when one ends it takes it. */
    static inline int64_t (*clock)() = nullptr;
    static inline void (*ended)(const NvtxRange &) = nullptr;

    static const std::vector<NvtxRange> &open() { return stack(); }

    /* Put our functions into NVTX's tables; false: this NVTX has none. */
    static bool install(const void *(*export_table)(uint32_t)) {
        struct Callbacks {
            size_t size;
            int (*module_table)(int32_t module, void ***table, uint32_t *count);
        };
        auto *callbacks = static_cast<const Callbacks *>(export_table(CALLBACKS));
        void **core = nullptr, **domains = nullptr;
        uint32_t core_count = 0, domain_count = 0;
        if (!callbacks || callbacks->size < sizeof(Callbacks)) return false;
        if (!callbacks->module_table(CORE, &core, &core_count) || !callbacks->module_table(CORE2, &domains, &domain_count)) return false;
        auto put = [](void **table, uint32_t count, uint32_t at, void *function) {
            if (at < count && table[at]) *static_cast<void **>(table[at]) = function;
        };
        put(core, core_count, PUSH_EX, reinterpret_cast<void *>(&push_with_attributes));
        put(core, core_count, PUSH_TEXT, reinterpret_cast<void *>(&push_text));
        put(core, core_count, POP, reinterpret_cast<void *>(&pop));
        put(domains, domain_count, DOMAIN_PUSH, reinterpret_cast<void *>(&push_in_domain));
        put(domains, domain_count, DOMAIN_POP, reinterpret_cast<void *>(&pop_in_domain));
        put(domains, domain_count, REGISTER_STRING, reinterpret_cast<void *>(&register_string));
        return true;
    }

  private:
    enum : uint32_t { CALLBACKS = 1 };
    enum : int32_t { CORE = 1, CORE2 = 5, TEXT = 1, REGISTERED = 3 };
    enum : uint32_t { PUSH_EX = 8, PUSH_TEXT = 9, POP = 11, DOMAIN_PUSH = 4, DOMAIN_POP = 5, REGISTER_STRING = 10 };

    /* Not among the thread's objects: libraries end ranges, and begin more, after those have gone. */
    static inline thread_local std::vector<NvtxRange> *of_thread = nullptr;

    /* Lets nothing remain of a thread that has no range open when it ends. */
    struct AtThreadEnd {
        ~AtThreadEnd() {
            if (!of_thread->empty()) return;
            delete of_thread;
            of_thread = nullptr;
        }
    };

    static std::vector<NvtxRange> &stack() {
        if (!of_thread) {
            of_thread = new std::vector<NvtxRange>;
            static thread_local AtThreadEnd at_end;
            (void)at_end;
        }
        return *of_thread;
    }

    static int push(const char *name) {
        stack().push_back({name ? name : "", clock ? clock() : 0});
        return static_cast<int>(stack().size()) - 1;
    }

    static int push_text(const char *name) { return push(name); }

    static int push_with_attributes(const NvtxAttributes *attributes) {
        bool known = attributes->message_type == TEXT || attributes->message_type == REGISTERED;
        return push(known ? attributes->message : "");
    }

    static int push_in_domain(void *, const NvtxAttributes *attributes) { return push_with_attributes(attributes); }

    static int pop() {
        if (stack().empty()) return -1;
        NvtxRange range = std::move(stack().back());
        stack().pop_back();
        if (ended) ended(range);
        return static_cast<int>(stack().size());
    }

    static int pop_in_domain(void *) { return pop(); }

    /* Kept for ever, as the program keeps what it is given. */
    static void *register_string(void *, const char *text) { return strdup(text ? text : ""); }
};

} // namespace pasta

#endif
