/* The Python stack of the calling thread, read where CPython keeps it: without its lock, at any moment, as in
 * a signal's handler.
 *
 * Only the thread itself changes its frames, so that they stand still while its handler reads them. It may
 * have been interrupted while it took one off, whose memory is given back already: the kernel
 * copies memory for us, and tells where there is none. Nothing is allocated and nobody is waited for. */
#ifndef PASTA_PYTHON_FRAMES_H
#define PASTA_PYTHON_FRAMES_H

#include "interned.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace pasta {

/* Where things lie in the structures of a version of CPython (its internal headers), in bytes. */
struct PythonLayout {
    int version;                          /* 100 times the major number, and the minor one */
    int chain;                            /* in a thread's state: what points to the innermost frame; -1: the state does */
    int innermost;                        /* in that */
    int code, caller, instruction, owner; /* in a frame */
    int first_line, instructions;         /* in a code object */
    int ascii, wide;                      /* in a text: where its characters begin */
};
inline constexpr PythonLayout PYTHON_LAYOUTS[] = {
    {311, 56, 8, 32, 48, 56, 69, 72, 184, 48, 72},
    {312, 56, 0, 0, 8, 56, 70, 68, 192, 40, 56},
    {313, -1, 72, 0, 8, 56, 70, 68, 200, 40, 56},
};

/* Null: the version is not known. */
inline const PythonLayout *python_layout(int version) {
    for (const PythonLayout &layout : PYTHON_LAYOUTS)
        if (layout.version == version) return &layout;
    return nullptr;
}

/* Memory of this process that may be gone. What was read last is kept, so forget it before it can be old.
 * It is too large for the stack of a handler. */
class OwnMemory {
  public:
    void forget() {
        length = 0;
        pid = getpid();
    }

    bool copy(void *to, uintptr_t at, size_t bytes) {
        if (at > UINTPTR_MAX - 2 * PAGE) return false; /* no address; sums with it would begin anew at 0 */
        bool here = at >= from && at + bytes <= from + length;
        if (!here && !load(at, bytes)) return false;
        memcpy(to, window + (at - from), bytes);
        return true;
    }

    template <class Value> bool get(Value &value, uintptr_t at) { return copy(&value, at, sizeof(value)); }

    /* Copy what may be larger than what is kept. */
    bool copy_all(char *to, uintptr_t at, size_t bytes) {
        for (size_t done = 0, some; done < bytes; done += some) {
            some = bytes - done < PAGE ? bytes - done : PAGE;
            if (!copy(to + done, at + done, some)) return false;
        }
        return true;
    }

    /* Copy as many pieces of equal size. */
    bool gather(char *to, const uintptr_t *pieces, size_t count, size_t bytes) {
        if (!count || count > std::size(there)) return false;
        for (size_t index = 0; index < count; ++index) there[index] = {reinterpret_cast<void *>(pieces[index]), bytes};
        iovec here{to, count * bytes};
        return process_vm_readv(pid, &here, 1, there, count, 0) == static_cast<ssize_t>(count * bytes);
    }

  private:
    static constexpr uintptr_t PAGE = 4096; /* pages may be larger, which does no harm */
    pid_t pid = 0;
    uintptr_t from = 0;
    size_t length = 0;
    char window[2 * PAGE];
    iovec there[256];

    bool load(uintptr_t at, size_t bytes) {
        from = at & ~(PAGE - 1);
        size_t wanted = ((at + bytes + PAGE - 1) & ~(PAGE - 1)) - from;
        if (wanted > sizeof(window)) return false;
        iovec here{window, wanted}, whole{reinterpret_cast<void *>(from), wanted};
        ssize_t got = process_vm_readv(pid, &here, 1, &whole, 1, 0);
        length = got > 0 ? static_cast<size_t>(got) : 0;
        return at + bytes <= from + length;
    }
};

/* Addresses of objects that were seen to be there, as many as fit. */
class SeenObjects {
  public:
    bool has(uintptr_t address) const {
        for (size_t at = place_of(address); seen[at]; at = (at + 1) % SIZE)
            if (seen[at] == address) return true;
        return false;
    }

    void add(uintptr_t address) {
        if (count == MOST || has(address)) return;
        size_t at = place_of(address);
        while (seen[at]) at = (at + 1) % SIZE;
        seen[at] = address;
        ++count;
    }

  private:
    static constexpr size_t SIZE = 1 << 15, MOST = 1 << 14;
    uintptr_t seen[SIZE];
    size_t count = 0;

    static size_t place_of(uintptr_t address) { return (address >> 4) * 0x9E3779B97F4A7C15u >> 49; }
};

/* A place in a Python program, in addresses that hold for as long as its code object lives. */
struct PythonPlace {
    uintptr_t code, file, name, lines;
    uint64_t mark; /* of the code object: another may get its memory */
    int32_t first_line, offset; /* of the instruction, in bytes; negative: the first is not reached */
};

/* For one thread at a time. */
class PythonFrames {
  public:
    static constexpr size_t DEEPEST = 256;

    size_t depth = 0;
    bool cut = false;            /* there are more frames */
    PythonPlace places[DEEPEST]; /* innermost first */
    OwnMemory memory;

    void know(const PythonLayout &of, const void *type_of_code) {
        layout = of;
        code_type = reinterpret_cast<uintptr_t>(type_of_code);
    }

    /* Walk the stack of the calling thread, whose state lies at `state`; false: it could not be read.
     * `checked`: it has been seen that the layout is right, so that what lives as long as the thread can be read as it is. */
    bool walk(uintptr_t state, bool checked) {
        memory.forget();
        depth = 0;
        uintptr_t holder = state, frame = 0;
        auto follow = [&](uintptr_t &pointer, uintptr_t at) {
            if (!checked) return memory.get(pointer, at);
            memcpy(&pointer, reinterpret_cast<void *>(at), sizeof(pointer));
            return true;
        };
        if (layout.chain >= 0 && !follow(holder, state + layout.chain)) return false;
        if (!follow(frame, holder + layout.innermost)) return false;
        while (frame && depth < DEEPEST) {
            char read[FRAME_BYTES];
            if (!memory.copy(read, frame, sizeof(read))) return false;
            if (read[layout.owner] != OF_THE_INTERPRETER) {
                codes[depth] = word(read, layout.code) + CODE_FROM;
                instructions[depth++] = word(read, layout.instruction);
            }
            frame = word(read, layout.caller);
        }
        cut = frame != 0;
        return look_up_codes();
    }

    /* The line of a place; 0: it has none. False: it could not be read. */
    bool line_of(const PythonPlace &place, int32_t &line) {
        line = place.first_line;
        uint64_t size;
        if (place.offset < 0) return true;
        if (!memory.get(size, place.lines + SIZE_AT)) return false;
        Lines read{memory, place.lines + BYTES_AT, place.lines + BYTES_AT + size};
        for (int32_t end = 0; read.at < read.end && !read.failed;) {
            bool has_line = read.next(line, end);
            if (place.offset < end) {
                if (!has_line) line = 0;
                return !read.failed;
            }
        }
        line = 0;
        return !read.failed;
    }

    /* Where the characters of a text lie, how many bytes each has, and how many there are. */
    bool text_at(uintptr_t text, uintptr_t &characters, uint8_t &width, uint64_t &count) {
        uint32_t state;
        if (!memory.get(count, text + SIZE_AT) || !memory.get(state, text + STATE_AT)) return false;
        width = state >> 2 & 7;
        characters = text + (state >> 6 & 1 ? layout.ascii : layout.wide);
        return (width == 1 || width == 2 || width == 4) && count <= MOST_CHARACTERS;
    }

  private:
    static constexpr size_t FRAME_BYTES = 72;
    static constexpr char OF_THE_INTERPRETER = 3; /* the owner of frames that stand for no Python */
    static constexpr uintptr_t CODE_FROM = 8;     /* what is read of a code object: from its type on, with its lines */
    static constexpr size_t CODE_BYTES = 136, VERSION_AT = 88, FILE_AT = 112, NAME_AT = 128, LINES_AT = 136;
    static constexpr uintptr_t SIZE_AT = 16, BYTES_AT = 32, STATE_AT = 32;
    static constexpr uint64_t MOST_CHARACTERS = 4096;

    PythonLayout layout{};
    uintptr_t code_type = 0, codes[DEEPEST], instructions[DEEPEST];
    char read_codes[DEEPEST * CODE_BYTES], gathered[DEEPEST * CODE_BYTES];
    SeenObjects seen; /* code objects */
    bool lives[DEEPEST];
    uintptr_t copied[DEEPEST];
    size_t copied_to[DEEPEST];

    static uintptr_t word(const char *from, size_t at) {
        uintptr_t value;
        memcpy(&value, from + at, sizeof(value));
        return value;
    }

    /* What tells a code object from another that gets its memory: the version, which no other has, and before
     * CPython 3.12 what its texts say. */
    uint64_t mark_of(const char *code, bool lives) {
        if (layout.version >= 312) return word(code, VERSION_AT - CODE_FROM);
        return hash_of(word(code, NAME_AT - CODE_FROM), lives) ^ hash_of(word(code, FILE_AT - CODE_FROM), lives) << 1;
    }

    /* Of a text's last characters, in which names that a program makes differ. */
    uint64_t hash_of(uintptr_t text, bool lives) {
        constexpr uint64_t MOST_BYTES = 128;
        char head[STATE_AT + sizeof(uint32_t)], last[MOST_BYTES];
        auto read = [&](char *to, uintptr_t at, size_t bytes) {
            if (lives) memcpy(to, reinterpret_cast<void *>(at), bytes);
            return lives || memory.copy(to, at, bytes);
        };
        if (!read(head, text, sizeof(head))) return 0;
        uint32_t state;
        memcpy(&state, head + STATE_AT, sizeof(state));
        uint64_t all = word(head, SIZE_AT) * (state >> 2 & 7), some = all < MOST_BYTES ? all : MOST_BYTES;
        uintptr_t characters = text + (state >> 6 & 1 ? layout.ascii : layout.wide);
        return read(last, characters + all - some, some) ? hash_bytes(last, some) : 0;
    }

    /* To have the kernel copy an object takes most of a sample's time. So one that was seen to be a code object is read as
     * it is, unless the thread may be about to throw it away, which it does with the innermost frame's alone. */
    bool copy_codes() {
        size_t unseen = 0;
        for (size_t index = 0; index < depth; ++index) {
            lives[index] = index && seen.has(codes[index]);
            if (lives[index])
                memcpy(read_codes + index * CODE_BYTES, reinterpret_cast<void *>(codes[index]), CODE_BYTES);
            else
                copied[unseen] = codes[index], copied_to[unseen++] = index;
        }
        if (unseen && !memory.gather(gathered, copied, unseen, CODE_BYTES)) return false;
        for (size_t number = 0; number < unseen; ++number) {
            char *to = read_codes + copied_to[number] * CODE_BYTES;
            memcpy(to, gathered + number * CODE_BYTES, CODE_BYTES);
            if (word(to, 0) == code_type) seen.add(copied[number]);
        }
        return true;
    }

    bool look_up_codes() {
        if (!copy_codes()) return false;
        for (size_t index = 0; index < depth; ++index) {
            const char *read = read_codes + index * CODE_BYTES;
            if (word(read, 0) != code_type) return false;
            PythonPlace &place = places[index];
            place = {codes[index] - CODE_FROM, word(read, FILE_AT - CODE_FROM), word(read, NAME_AT - CODE_FROM),
                     word(read, LINES_AT - CODE_FROM), mark_of(read, lives[index]), 0, 0};
            memcpy(&place.first_line, read + layout.first_line - CODE_FROM, sizeof(place.first_line));
            place.offset = static_cast<int32_t>(static_cast<intptr_t>(instructions[index] - place.code) - layout.instructions);
        }
        return true;
    }

    /* The table of locations, of which each entry stands for some instructions (CPython's Objects/locations.md). */
    struct Lines {
        OwnMemory &memory;
        uintptr_t at, end;
        bool failed = false;

        /* Go on to the next entry: change `line`, and `instructions_end`; tell whether it has a line. */
        bool next(int32_t &line, int32_t &instructions_end) {
            uint8_t head = byte(), kind = head >> 3 & 15;
            instructions_end += 2 * ((head & 7) + 1);
            if (kind == 15) return false;
            if (kind == 14) {
                line += signed_number();
                for (int column = 0; column < 3; ++column) number();
            } else if (kind == 13) {
                line += signed_number();
            } else if (kind >= 10) {
                line += kind - 10;
                at += 2;
            } else {
                at += 1;
            }
            return true;
        }

        uint8_t byte() {
            uint8_t value = 0;
            failed = failed || !memory.get(value, at++);
            return value;
        }

        uint32_t number() {
            uint8_t read = byte();
            uint32_t value = read & 63;
            for (uint32_t shift = 6; read & 64 && shift < 32; shift += 6) value |= ((read = byte()) & 63u) << shift;
            return value;
        }

        int32_t signed_number() {
            uint32_t value = number();
            auto size = static_cast<int32_t>(value >> 1);
            return value & 1 ? -size : size;
        }
    };
};

} // namespace pasta

#endif
