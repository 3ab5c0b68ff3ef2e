/* Native call stacks, interned by their addresses. What they are called is found out later, elsewhere. */
#ifndef PASTA_NATIVE_STACKS_H
#define PASTA_NATIVE_STACKS_H

#include "interned.h"
#include "stack_walk.h"

#include <link.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <vector>

namespace pasta {

/* The code of some libraries. */
class CodeOf {
  public:
    CodeOf() = default;

    /* Of the libraries of this process whose file's name begins with one of `names`, and of the one
     * that this is compiled into. */
    explicit CodeOf(std::initializer_list<std::string_view> names) {
        Search search{this, names, reinterpret_cast<uintptr_t>(&CodeOf::look)};
        dl_iterate_phdr(&CodeOf::look, &search);
    }

    bool has(uintptr_t address) const {
        return std::any_of(ranges.begin(), ranges.end(), [&](auto &range) { return address >= range.first && address < range.second; });
    }

  private:
    struct Search {
        CodeOf *found;
        std::initializer_list<std::string_view> names;
        uintptr_t own;
    };
    std::vector<std::pair<uintptr_t, uintptr_t>> ranges;

    static int look(dl_phdr_info *library, size_t, void *search) {
        auto &[found, names, own] = *static_cast<Search *>(search);
        std::string_view path = library->dlpi_name, file = path.substr(path.rfind('/') + 1);
        bool wanted = std::any_of(names.begin(), names.end(), [&](std::string_view name) { return file.starts_with(name); });
        std::vector<std::pair<uintptr_t, uintptr_t>> code;
        for (int at = 0; at < library->dlpi_phnum; ++at) {
            const ElfW(Phdr) &segment = library->dlpi_phdr[at];
            if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
            uintptr_t begin = library->dlpi_addr + segment.p_vaddr;
            code.emplace_back(begin, begin + segment.p_memsz);
            wanted |= own >= code.back().first && own < code.back().second;
        }
        if (wanted) found->ranges.insert(found->ranges.end(), code.begin(), code.end());
        return 0;
    }
};

/* The stacks met so far; for any thread.
 *
 * Nothing is allocated and no name is looked up for a stack that is known. With a C library that
 * finds unwinding tables without a lock (glibc 2.35 on), none but the one here is taken. */
class NativeStacks {
  public:
    /* Ids lie above those of Python's stacks in the same process. */
    static constexpr uint64_t FIRST = 1ull << 32;
    static constexpr size_t MOST = 1 << 16;

    struct Stack {
        uint64_t id;
        std::vector<uintptr_t> calls; /* an address in each calling instruction, innermost first */
    };
    struct Lost {
        uint64_t unwalked = 0, too_deep = 0, too_many = 0;
    };

    /* Leave out the innermost frames, as long as they lie in this code. */
    void leave_out(CodeOf code) { inner = std::move(code); }

    /* The id of the calling thread's stack, from the caller of this on; 0: not known. */
    [[gnu::always_inline]] uint64_t here() {
        const StackWalk &walk = StackWalk::here();
        const uintptr_t *end = walk.calls + walk.depth;
        const uintptr_t *begin = std::find_if_not(walk.calls, end, [this](uintptr_t call) { return inner.has(call); });
        std::string_view key(reinterpret_cast<const char *>(begin), static_cast<size_t>(end - begin) * sizeof(uintptr_t));
        std::lock_guard<std::mutex> guard(lock);
        lost.unwalked += key.empty();
        lost.too_deep += walk.cut;
        if (key.empty()) return 0;
        if (auto known = ids.find(key); known != ids.end()) return known->second;
        if (ids.size() >= MOST) {
            ++lost.too_many;
            return 0;
        }
        uint64_t id = FIRST + ids.size();
        ids.emplace(key, id);
        fresh.push_back({id, {begin, end}});
        return id;
    }

    /* The stacks that were met first since the last call. */
    std::vector<Stack> take() {
        std::lock_guard<std::mutex> guard(lock);
        return std::exchange(fresh, {});
    }

    Lost take_lost() {
        std::lock_guard<std::mutex> guard(lock);
        return std::exchange(lost, {});
    }

  private:
    struct Hash {
        using is_transparent = void;
        size_t operator()(std::string_view key) const { return hash_bytes(key.data(), key.size()); }
    };

    CodeOf inner;
    std::mutex lock;
    std::unordered_map<std::string, uint64_t, Hash, std::equal_to<>> ids;
    std::vector<Stack> fresh;
    Lost lost;
};

} // namespace pasta

#endif
