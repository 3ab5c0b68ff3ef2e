/* Samples on their way from the handler of a signal to the thread that makes rows of them.
 *
 * A place and a stack are told once and then go by their keys, so that a sample takes some words. */
#ifndef PASTA_SAMPLE_LOG_H
#define PASTA_SAMPLE_LOG_H

#include "interned.h"
#include "python_frames.h"

#include <sched.h>

#include <atomic>

namespace pasta {

struct PlaceHead {
    uint64_t key;
    int32_t line;
    uint32_t name_count, file_count;
    uint8_t name_width, file_width; /* bytes of a character */
};
struct StackHead {
    uint64_t key;
    uint32_t depth; /* so many keys of places follow, innermost first */
};
struct SampleEntry {
    uint64_t stack; /* 0: not recorded */
    int64_t tid, ts;
    double weight;
};
enum class Entry : uint8_t { PLACE, STACK, SAMPLE };

/* Keys that were met, as many as fit. */
class MetKeys {
  public:
    enum class Met { BEFORE, NOW, NEVER };

    Met meet(uint64_t key) {
        size_t at = key & (SIZE - 1);
        for (; keys[at]; at = (at + 1) & (SIZE - 1))
            if (keys[at] == key) return Met::BEFORE;
        if (count == MOST) return Met::NEVER;
        keys[at] = key;
        last[count++ - kept] = static_cast<uint32_t>(at);
        return Met::NOW;
    }

    /* The keys met since the last call stay, or are forgotten. */
    void keep() { kept = count; }
    void undo() {
        while (count > kept) keys[last[--count - kept]] = 0;
    }
    void clear() {
        memset(keys, 0, sizeof(keys));
        count = kept = 0;
    }

  private:
    static constexpr size_t SIZE = 1 << 17, MOST = 1 << 16;
    uint64_t keys[SIZE];
    size_t count = 0, kept = 0;
    uint32_t last[PythonFrames::DEEPEST + 1];
};

/* What could not be recorded, in samples. */
struct LostSamples {
    uint64_t busy, unreadable, full, too_deep, too_many, too_many_places;
};

/* It is too large for a stack. Every thread's handler adds; one thread takes, with all signals blocked. */
class SampleLog {
  public:
    static constexpr size_t BYTES = 1 << 20;
    PythonFrames frames; /* of whoever holds the lock */

    /* Add what the calling thread does now; a `state` of 0: it runs no Python. */
    void add(const std::atomic<bool> &wanted, uintptr_t state, int64_t tid, int64_t ts, double weight) {
        if (!lock()) {
            busy.fetch_add(1, std::memory_order_relaxed);
            return;
        }
        if (!wanted) {
            /* It ended while this thread had no processor: its frames may have gone with the interpreter. */
        } else if (state && !frames.walk(state, true)) {
            ++lost.unreadable;
        } else if (state ? add_sample(tid, ts, weight) : put(Entry::SAMPLE, SampleEntry{0, tid, ts, weight})) {
            keep();
        } else {
            undo();
        }
        unlock();
    }

    /* Hand over what has gathered: `read(bytes, count)`, during which others add on; return what was lost. */
    template <class Read> LostSamples take(Read read) {
        while (!lock()) sched_yield();
        const char *bytes = logs[turn];
        size_t count = used;
        turn = !turn;
        used = kept = 0;
        LostSamples taken = lost;
        taken.busy = busy.exchange(0);
        lost = {};
        unlock();
        read(bytes, count);
        return taken;
    }

    /* In a child, after a fork: nobody holds the lock, and nothing was told. */
    void begin_anew() {
        used = kept = 0;
        lost = {};
        busy = 0;
        places.clear();
        stacks.clear();
        held.clear();
    }

  private:
    enum class Added { WHOLE, BEYOND_PLACES, NOT };
    static constexpr int PATIENCE = 2000;
    std::atomic_flag held = ATOMIC_FLAG_INIT;
    std::atomic<uint64_t> busy{0};
    LostSamples lost{};
    MetKeys places, stacks;
    uint64_t keys[PythonFrames::DEEPEST]; /* of the places of the stack that is added */
    char logs[2][BYTES];
    size_t used = 0, kept = 0; /* kept: without what a sample has put that is not whole yet */
    bool turn = false;

    bool lock() {
        for (int tries = 0; held.test_and_set(std::memory_order_acquire); ++tries) {
            if (tries == PATIENCE) return false;
            if (tries % 16 == 15) sched_yield();
        }
        return true;
    }
    void unlock() { held.clear(std::memory_order_release); }

    void keep() {
        kept = used;
        places.keep();
        stacks.keep();
    }
    void undo() {
        used = kept;
        places.undo();
        stacks.undo();
    }

    bool put(const void *data, size_t bytes) {
        if (used + bytes > BYTES) return false;
        memcpy(logs[turn] + used, data, bytes);
        used += bytes;
        return true;
    }
    template <class Head> bool put(Entry kind, const Head &head) {
        return (put(&kind, sizeof(kind)) && put(&head, sizeof(head))) || full();
    }
    bool full() {
        ++lost.full;
        return false;
    }

    bool add_sample(int64_t tid, int64_t ts, double weight) {
        for (size_t index = 0; index < frames.depth; ++index) keys[index] = hash_bytes(&frames.places[index], sizeof(PythonPlace));
        if (!frames.depth) return put(Entry::SAMPLE, SampleEntry{0, tid, ts, weight});
        uint64_t stack = hash_bytes(keys, frames.depth * sizeof(*keys));
        if (frames.cut) ++lost.too_deep;
        MetKeys::Met met = stacks.meet(stack);
        if (met == MetKeys::Met::NEVER) {
            ++lost.too_many;
            stack = 0;
        }
        Added added = met == MetKeys::Met::NOW ? add_stack(stack) : Added::WHOLE;
        if (added == Added::BEYOND_PLACES) {
            ++lost.too_many_places;
            undo();
            stack = 0;
        }
        return added != Added::NOT && put(Entry::SAMPLE, SampleEntry{stack, tid, ts, weight});
    }

    Added add_stack(uint64_t stack) {
        for (size_t index = 0; index < frames.depth; ++index) {
            MetKeys::Met met = places.meet(keys[index]);
            if (met == MetKeys::Met::NEVER) return Added::BEYOND_PLACES;
            if (met == MetKeys::Met::NOW && !add_place(frames.places[index], keys[index])) return Added::NOT;
        }
        auto depth = static_cast<uint32_t>(frames.depth);
        bool fits = put(Entry::STACK, StackHead{stack, depth}) && (put(keys, depth * sizeof(*keys)) || full());
        return fits ? Added::WHOLE : Added::NOT;
    }

    bool add_place(const PythonPlace &place, uint64_t key) {
        PlaceHead head{};
        head.key = key;
        uintptr_t name, file;
        uint64_t name_count, file_count;
        if (!frames.line_of(place, head.line) || !frames.text_at(place.name, name, head.name_width, name_count) ||
            !frames.text_at(place.file, file, head.file_width, file_count)) {
            ++lost.unreadable;
            return false;
        }
        head.name_count = static_cast<uint32_t>(name_count);
        head.file_count = static_cast<uint32_t>(file_count);
        return put(Entry::PLACE, head) && add_text(name, name_count * head.name_width) && add_text(file, file_count * head.file_width);
    }

    bool add_text(uintptr_t characters, size_t bytes) {
        if (used + bytes > BYTES) return full();
        if (!frames.memory.copy_all(logs[turn] + used, characters, bytes)) {
            ++lost.unreadable;
            return false;
        }
        used += bytes;
        return true;
    }
};

} // namespace pasta

#endif
