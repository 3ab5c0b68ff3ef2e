/* Device memory of the memory collector, of one context: its page table, and banks of slots.
 *
 * One bank is open: launches take its slots. A full bank is sealed; its launches may still run, and
 * marks that are set behind them in their streams tell when they are done. Then it is drained: what
 * launches touched is copied to the host and cleared on the device, always by a thread of the program
 * inside one of Compute Sanitizer's callbacks, so that no thread of ours ever waits for a lock of the
 * driver. The analyst reads the copy, and only then the bank is used again. */
#ifndef PASTA_MEMORY_BANK_H
#define PASTA_MEMORY_BANK_H

#include "memory_options.h"
#include "sanitizer_library.h"

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

namespace pasta {

/* Calls of Compute Sanitizer; failures are counted by what failed. */
class Sanitizer {
  public:
    SanitizerLibrary library;

    template <class... Arguments> bool operator()(const char *what, SanitizerResult (*call)(Arguments...), std::type_identity_t<Arguments>... arguments) {
        SanitizerResult result = call(arguments...);
        if (result == SANITIZER_SUCCESS) return true;
        std::lock_guard<std::mutex> guard(lock);
        ++failures[std::string(what) + ": " + library.reason(result)];
        return false;
    }

    std::map<std::string, uint64_t> failed() {
        std::lock_guard<std::mutex> guard(lock);
        return failures;
    }

  private:
    std::mutex lock;
    std::map<std::string, uint64_t> failures;
};

/* A bank's memory. What travels to the host lies together: totals of the used slots, the first slot's
 * last; control; leaves in use. In front are totals of other slots, behind are other leaves. */
struct BankLayout {
    uint32_t slots, pages, leaves, leaf_words, tallies;

    size_t tallies_at() const { return 0; }
    size_t totals_at(uint32_t slot) const { return tallies * sizeof(Tally) + (slots - 1 - slot) * sizeof(Totals); }
    size_t control_at() const { return tallies * sizeof(Tally) + slots * sizeof(Totals); }
    size_t leaves_at() const { return control_at() + 64; }
    size_t leaf_bytes() const { return leaf_words * 4ull; }
    size_t bytes() const { return leaves_at() + leaves * leaf_bytes(); }
    static constexpr size_t boxes_bytes() { return BOXES * sizeof(Box); }
    size_t page_words_bytes() const { return static_cast<size_t>(slots) * pages * 4; }
    /* With tallies all must be copied. */
    size_t travels_from(uint32_t used) const { return tallies ? 0 : totals_at(used - 1); }
};

class Bank {
  public:
    enum State { OPEN, SEALED, DRAINED, FREE };

    std::atomic<State> state{FREE}; /* the analyst sets it free, others all else */
    uint32_t used = 0;       /* slots */
    uint32_t in_flight = 0;  /* launches that have begun and not ended on the host */
    int64_t opened = 0;
    bool marked = false;
    bool ready = true; /* cleared, and its slots described; where that failed it is tried again */
    std::map<Sanitizer_StreamHandle, CUstream> streams;
    BankLayout layout{};

    /* The host's copy, and which parts of it are sound after a drain. */
    const BankControl &control() const { return *reinterpret_cast<const BankControl *>(mirror + layout.control_at()); }
    const Totals &totals(uint32_t slot) const { return *reinterpret_cast<const Totals *>(mirror + layout.totals_at(slot)); }
    const Tally *tallies() const { return reinterpret_cast<const Tally *>(mirror + layout.tallies_at()); }
    const uint32_t *leaf(uint32_t number) const {
        return reinterpret_cast<const uint32_t *>(mirror + layout.leaves_at() + number * layout.leaf_bytes());
    }
    const std::vector<uint32_t> &page_words() const { return words; }

    bool make(Sanitizer &call, CUcontext context, const BankLayout &wanted, Sanitizer_StreamHandle stream) {
        layout = wanted;
        void *host = nullptr, *memory = nullptr, *pages = nullptr, *boxes = nullptr, *own = nullptr;
        bool made = call("device memory", call.library.allocate, context, &memory, layout.bytes()) &&
                    call("device memory", call.library.allocate, context, &pages, layout.page_words_bytes()) &&
                    call("device memory", call.library.allocate, context, &boxes, layout.boxes_bytes()) &&
                    call("device memory", call.library.allocate, context, &own, layout.slots * sizeof(Slot)) &&
                    call("pinned memory", call.library.allocate_host, context, &host, MARKS + layout.bytes());
        device = static_cast<char *>(memory);
        device_pages = static_cast<uint32_t *>(pages);
        device_boxes = static_cast<Box *>(boxes);
        device_slots = static_cast<Slot *>(own);
        marks = static_cast<volatile uint8_t *>(host);
        mirror = static_cast<char *>(host) + MARKS;
        return made && clear(call, stream);
    }

    /* Tell the device of the slots, which are alike but for their places. */
    bool describe(Sanitizer &call, const Slot &common, Sanitizer_StreamHandle stream) {
        slots.assign(layout.slots, common);
        for (uint32_t index = 0; index < layout.slots; ++index) {
            Slot &slot = slots[index];
            slot.id = index;
            slot.pages = device_pages + static_cast<size_t>(index) * layout.pages;
            slot.totals = reinterpret_cast<Totals *>(device + layout.totals_at(index));
            slot.bank = reinterpret_cast<BankControl *>(device + layout.control_at());
            slot.boxes = device_boxes;
            slot.tallies = reinterpret_cast<Tally *>(device + layout.tallies_at());
            slot.leaves = reinterpret_cast<uint32_t *>(device + layout.leaves_at());
            slot.page_count = layout.pages;
            slot.leaf_count = layout.leaves;
            slot.leaf_words = layout.leaf_words;
        }
        return call("slots", call.library.copy_to_device, device_slots, slots.data(), slots.size() * sizeof(Slot), stream);
    }

    /* Make room for more pages, and fewer slots; without memory for that, all is as before. */
    bool grow(Sanitizer &call, CUcontext context, uint32_t pages, uint32_t slot_count) {
        void *words_of_pages = nullptr;
        BankLayout wanted = layout;
        wanted.pages = pages;
        wanted.slots = slot_count;
        if (!call("device memory", call.library.allocate, context, &words_of_pages, wanted.page_words_bytes())) return false;
        call("freeing", call.library.release, context, device_pages);
        device_pages = static_cast<uint32_t *>(words_of_pages);
        layout = wanted;
        ready = false;
        return true;
    }

    bool clear(Sanitizer &call, Sanitizer_StreamHandle stream) {
        return call("clearing", call.library.set_memory, device, 0, layout.bytes(), stream) &&
               call("clearing", call.library.set_memory, device_pages, 0, layout.page_words_bytes(), stream) &&
               call("clearing", call.library.set_memory, device_boxes, 0, layout.boxes_bytes(), stream);
    }

    const Slot *on_device(uint32_t slot) const { return device_slots + slot; }

    /* Tell a slot of its launch. */
    bool address(Sanitizer &call, uint32_t slot, uint64_t code, uint32_t launch, Sanitizer_StreamHandle stream) {
        Slot &mine = slots[slot];
        mine.code = code;
        mine.launch = launch;
        return call("slot", call.library.copy_to_device, device_slots + slot, &mine, sizeof(Slot), stream);
    }

    void open(int64_t now) {
        state = OPEN;
        opened = now;
        used = in_flight = 0;
        marked = false;
        awaited = 0;
        streams.clear();
    }

    /* Set a mark behind the launches of each stream, unless one is being captured. */
    template <class IsCapturing> void mark_end(Sanitizer &call, IsCapturing is_capturing) {
        for (auto &[handle, stream] : streams)
            if (is_capturing(stream)) return;
        for (auto &[handle, stream] : streams) mark_stream(call, handle);
        marked = true;
    }

    /* A stream ends: its mark is set while there is a stream to set it in. If that is being captured there is no
     * place for a mark, and what the bank has is given up: nobody will say when its launches are done. */
    template <class IsCapturing> void mark_last(Sanitizer &call, Sanitizer_StreamHandle handle, IsCapturing is_capturing) {
        auto ending = streams.find(handle);
        if (ending == streams.end()) return;
        if (!marked && is_capturing(ending->second) && awaited < MARKS) marks[awaited++] = 0;
        else if (!marked) mark_stream(call, handle);
        streams.erase(ending);
    }

    bool reached_end() const {
        for (size_t number = 0; number < awaited; ++number)
            if (!marks[number]) return false;
        return marked;
    }

    /* Copy to the host what launches left, and clear it on the device; false: nothing is copied, and all is there still. */
    bool drain(Sanitizer &call, Sanitizer_StreamHandle stream) {
        uint32_t guess = std::min(layout.leaves, last_leaves + last_leaves / 4 + 16);
        size_t from = layout.travels_from(used), to = layout.leaves_at() + guess * layout.leaf_bytes();
        bool sound = call("copy", call.library.copy_to_host, mirror + from, device + from, to - from, stream);
        uint32_t leaves = std::min(control().leaves, layout.leaves);
        size_t end = layout.leaves_at() + leaves * layout.leaf_bytes();
        if (sound && end > to) sound = call("copy", call.library.copy_to_host, mirror + to, device + to, end - to, stream);
        words.clear();
        if (sound && control().leaves > layout.leaves) { /* some pages bear the marks themselves */
            words.resize(static_cast<size_t>(used) * layout.pages);
            sound = call("copy", call.library.copy_to_host, words.data(), device_pages, words.size() * 4, stream);
        }
        if (!sound) return false;
        last_leaves = leaves;
        ready = call("clearing", call.library.set_memory, device + from, 0, end - from, stream) &&
                call("clearing", call.library.set_memory, device_pages, 0, static_cast<size_t>(used) * layout.pages * 4, stream) &&
                call("clearing", call.library.set_memory, device_boxes, 0, layout.boxes_bytes(), stream) &&
                call("waiting", call.library.synchronize, stream);
        state = DRAINED;
        return true;
    }

  private:
    static constexpr size_t MARKS = 256;

    /* With more streams than marks, the last ones are waited for here. */
    void mark_stream(Sanitizer &call, Sanitizer_StreamHandle stream) {
        if (awaited < MARKS) {
            marks[awaited] = 0;
            if (call("mark", call.library.set_memory, const_cast<uint8_t *>(&marks[awaited]), 1, 1, stream)) {
                ++awaited;
                return;
            }
        }
        call("waiting", call.library.synchronize, stream);
    }

    char *device = nullptr, *mirror = nullptr;
    uint32_t *device_pages = nullptr;
    Box *device_boxes = nullptr;
    Slot *device_slots = nullptr;
    volatile uint8_t *marks = nullptr;
    std::vector<Slot> slots;
    std::vector<uint32_t> words;
    uint32_t last_leaves = 0;
    size_t awaited = 0; /* marks that were set, also in streams that have gone since */
};

/* An array on the device, of which the host has the original. Every stream that launches brings the
 * device's up to date first, so that no other stream is waited for. */
template <class Item> class Mirrored {
  public:
    bool make(Sanitizer &call, CUcontext context, size_t items, int filler, Sanitizer_StreamHandle stream) {
        void *memory = nullptr;
        Item empty;
        std::memset(static_cast<void *>(&empty), filler, sizeof(Item));
        original.assign(items, empty);
        bool made = call("device memory", call.library.allocate, context, &memory, items * sizeof(Item)) &&
                    call("clearing", call.library.set_memory, memory, filler, items * sizeof(Item), stream) &&
                    call("waiting", call.library.synchronize, stream);
        copy = static_cast<Item *>(memory);
        return made;
    }

    const Item *on_device() const { return copy; }
    const Item &operator[](size_t index) const { return original[index]; }

    void set(size_t index, const Item &value) {
        original[index] = value;
        if (!changes.empty() && changes.back().end == index && !is_known) changes.back().end = index + 1;
        else changes.push_back({index, index + 1});
        is_known = false;
    }

    bool bring_up_to_date(Sanitizer &call, Sanitizer_StreamHandle stream) {
        if (changes.empty()) return true;
        size_t &known = known_by[stream];
        bool sound = true;
        for (; known < changes.size(); ++known, is_known = true) {
            Item *first = original.data() + changes[known].begin;
            size_t bytes = (changes[known].end - changes[known].begin) * sizeof(Item);
            sound &= call("table", call.library.copy_to_device, copy + changes[known].begin, first, bytes, stream);
        }
        return sound;
    }

    void forget(Sanitizer_StreamHandle stream) { known_by.erase(stream); }

  private:
    struct Change {
        size_t begin, end;
    };
    std::vector<Item> original;
    Item *copy = nullptr;
    std::vector<Change> changes;
    bool is_known = false; /* whether a stream has brought the last change */
    std::map<Sanitizer_StreamHandle, size_t> known_by; /* how many changes the stream has brought */
};

/* Numbers of pages, by address. */
class PageTable {
  public:
    bool make(Sanitizer &call, CUcontext context, Sanitizer_StreamHandle stream) {
        return chunk_of.make(call, context, CHUNKS_OF_SPACE, 0xFF, stream) &&
               page_of.make(call, context, static_cast<size_t>(CHUNKS) * CHUNK_PAGES, 0xFF, stream);
    }

    const uint16_t *chunks() const { return chunk_of.on_device(); }
    const uint32_t *pages() const { return page_of.on_device(); }
    uint32_t size() const { return static_cast<uint32_t>(addresses.size()); }
    uint64_t address(uint32_t page) const { return addresses[page]; }
    uint64_t unnumbered() const { return without_number; }

    /* Give a page a number; it is given as its address >> PAGE_SHIFT. */
    void add(uint64_t page) {
        uint64_t space = page >> (CHUNK_SHIFT - PAGE_SHIFT);
        if (space >= CHUNKS_OF_SPACE || (chunk_of[space] == NO_CHUNK && chunks_used == CHUNKS)) {
            ++without_number;
            return;
        }
        if (chunk_of[space] == NO_CHUNK) chunk_of.set(space, chunks_used++);
        size_t at = static_cast<size_t>(chunk_of[space]) * CHUNK_PAGES + page % CHUNK_PAGES;
        if (page_of[at] != NO_PAGE) return;
        page_of.set(at, size());
        addresses.push_back(page << PAGE_SHIFT);
    }

    bool bring_up_to_date(Sanitizer &call, Sanitizer_StreamHandle stream) {
        return page_of.bring_up_to_date(call, stream) && chunk_of.bring_up_to_date(call, stream);
    }

    void forget(Sanitizer_StreamHandle stream) {
        page_of.forget(stream);
        chunk_of.forget(stream);
    }

  private:
    static constexpr uint16_t CHUNKS = 32;
    Mirrored<uint16_t> chunk_of;
    Mirrored<uint32_t> page_of;
    uint16_t chunks_used = 0;
    std::vector<uint64_t> addresses; /* page number -> where it begins */
    uint64_t without_number = 0;
};

} // namespace pasta

#endif
