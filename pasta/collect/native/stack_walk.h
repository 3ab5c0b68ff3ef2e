/* The return addresses of the calling thread. */
#ifndef PASTA_STACK_WALK_H
#define PASTA_STACK_WALK_H

#include <unwind.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace pasta {

/* The calling thread's stack, innermost frame first.
 *
 * To look up how a function is unwound is dear. So a thread keeps the frames of its last walk, and
 * walks until it comes to one that is there still, at the same place: its callers are those of that
 * time, if each has yet to return to where it had to, and with the same base pointer. On x86-64 the
 * address to return to lies right below the caller's frame, and the caller's base pointer, if it is
 * saved, some words below. Where that is not so, every frame is looked up. */
class StackWalk {
  public:
    static constexpr size_t DEEPEST = 256;

    size_t depth = 0;
    bool cut = false;         /* there are more frames */
    uintptr_t calls[DEEPEST]; /* an address in each calling instruction */

    /* From the caller of this on. */
    [[gnu::noinline]] static const StackWalk &here() {
        static thread_local StackWalk walks[2];
        static thread_local bool turn = false;
        turn = !turn;
        StackWalk &walk = walks[turn];
        walk.begin(walks[!turn]);
        _Unwind_Backtrace(&step, &walk);
        return walk;
    }

  private:
#ifdef __x86_64__
    static constexpr bool KNOWN_LAYOUT = true;
#else
    static constexpr bool KNOWN_LAYOUT = false;
#endif
    static constexpr int BASE_POINTER = 6, SAVED_REGISTERS = 6;

    uintptr_t places[DEEPEST], bases[DEEPEST]; /* of the frames: where they end, and base pointers */
    int8_t saved[DEEPEST];                     /* so many words below a frame's end lies its base pointer; 0: it is still in use */
    bool begun = false, checkable = false;
    const StackWalk *last = nullptr;
    size_t next = 0, changed = 0; /* in the last walk: the frame to compare, and the one that is not as it was */

    void begin(const StackWalk &before) {
        depth = next = changed = 0;
        cut = begun = false;
        checkable = KNOWN_LAYOUT;
        last = before.checkable && !before.cut ? &before : nullptr;
    }

    static _Unwind_Reason_Code step(_Unwind_Context *context, void *argument) {
        auto &walk = *static_cast<StackWalk *>(argument);
        if (!std::exchange(walk.begun, true)) return _URC_NO_REASON; /* ours */
        int interrupted = 0; /* by a signal: the address is not one to which a call returns */
        uintptr_t address = _Unwind_GetIPInfo(context, &interrupted);
        if (!address) return _URC_END_OF_STACK;
        if ((walk.cut = walk.depth == DEEPEST)) return _URC_END_OF_STACK;
        walk.calls[walk.depth] = address - !interrupted;
        if (walk.checkable) walk.add_place(context, interrupted);
        ++walk.depth;
        return walk.checkable && walk.rest_is_known() ? _URC_END_OF_STACK : _URC_NO_REASON;
    }

    void add_place(_Unwind_Context *context, bool interrupted) {
        places[depth] = _Unwind_GetCFA(context);
        bases[depth] = _Unwind_GetGR(context, BASE_POINTER);
        saved[depth] = 0;
        if (depth && bases[depth] != bases[depth - 1]) saved[depth] = where_saved(depth);
        checkable = !interrupted && saved[depth] >= 0 && (depth == 0 || is_as_it_was(depth));
    }

    uintptr_t word_below(size_t frame, int words) const { return reinterpret_cast<const uintptr_t *>(places[frame])[-words]; }

    int8_t where_saved(size_t frame) const {
        for (int8_t words = 2; words < 2 + SAVED_REGISTERS; ++words)
            if (places[frame] - static_cast<size_t>(words) * sizeof(uintptr_t) >= places[frame - 1] && word_below(frame, words) == bases[frame]) return words;
        return -1;
    }

    bool is_as_it_was(size_t frame) const {
        return word_below(frame, 1) == calls[frame] + 1 && (!saved[frame] || word_below(frame, saved[frame]) == bases[frame]);
    }

    /* Take the callers of the newest frame from the last walk, if they are those of then. */
    bool rest_is_known() {
        if (!last) return false;
        size_t newest = depth - 1;
        while (next < last->depth && last->places[next] < places[newest]) ++next;
        if (next == last->depth || next < changed) return false;
        if (last->places[next] != places[newest] || last->bases[next] != bases[newest] || last->calls[next] != calls[newest]) return false;
        for (size_t frame = next + 1; frame < last->depth; ++frame)
            if (!last->is_as_it_was(frame)) {
                changed = frame;
                return false;
            }
        return take_rest();
    }

    bool take_rest() {
        size_t from = next + 1, rest = last->depth - from;
        if (depth + rest > DEEPEST) return false;
        std::copy_n(last->calls + from, rest, calls + depth);
        std::copy_n(last->places + from, rest, places + depth);
        std::copy_n(last->bases + from, rest, bases + depth);
        std::copy_n(last->saved + from, rest, saved + depth);
        depth += rest;
        return true;
    }
};

} // namespace pasta

#endif
