/* What the memory collector keeps of one CUDA context: page table, banks. */
#ifndef PASTA_MEMORY_CONTEXT_H
#define PASTA_MEMORY_CONTEXT_H

#include "memory_bank.h"
#include "memory_rows.h"

#include <array>
#include <atomic>
#include <memory>
#include <utility>

namespace pasta {

/* Where a launch's results go. */
struct Place {
    Bank *bank = nullptr;
    uint32_t slot = 0;
};

/* A drained bank, for the analyst. */
struct Drained {
    static constexpr uint64_t NOWHERE = ~0ull;
    Bank *bank;
    std::vector<Launch> launches;      /* by slot */
    std::vector<uint64_t> leaf_pages;  /* leaf -> address of its page */
    std::vector<uint64_t> page_address; /* of all pages, where some bear the marks themselves */
};

class MemoryContext {
  public:
    static constexpr uint32_t BANKS = 3, MOST_SLOTS = 128, FIRST_PAGES = 4096;

    const CUcontext handle;
    const uint64_t number; /* from 1, in order of first launches */
    const int32_t device;
    const bool reads_tensor_maps;
    PageTable pages;
    size_t pages_seen = 0; /* of what the inventory has */
    uint64_t not_watched = 0;             /* launches for which there was no place */
    RingControl *ring = nullptr;
    RingHost *ring_host = nullptr;
    Record *records = nullptr;

    MemoryContext(CUcontext context, uint64_t its_number, int32_t its_device, const MemoryOptions &asked, Sanitizer &calls,
                  bool reads_maps)
        : handle(context), number(its_number), device(its_device), reads_tensor_maps(reads_maps), options(asked), call(calls) {}

    bool make(Sanitizer_StreamHandle stream) {
        stream_at_hand = stream;
        bool made = pages.make(call, handle, stream);
        if (made && options.records) made = make_ring(stream);
        for (Bank &bank : banks) made = made && bank.make(call, handle, layout(FIRST_PAGES), stream) && describe(bank, stream);
        return made && call("waiting", call.library.synchronize, stream);
    }

    /* From now on drain by a stream of ours, so that nothing waits for the program's launches. */
    std::atomic<Sanitizer_StreamHandle> own_stream{nullptr};

    /* A thread of ours makes it, in a context that may end meanwhile. */
    enum MakesStream { NOT, ASKED, AT_WORK };
    std::atomic<MakesStream> makes_stream{NOT};

    bool begin_stream() {
        MakesStream asked = ASKED;
        return makes_stream.compare_exchange_strong(asked, AT_WORK);
    }

    /* Whether no thread is at the stream, nor will be. */
    bool needs_no_stream() {
        MakesStream asked = ASKED;
        return makes_stream.compare_exchange_strong(asked, NOT) || asked == NOT;
    }

    /* Take a slot of the open bank for a launch in a stream; without one in time, no place. */
    template <class HandOver> Place take(Sanitizer_StreamHandle stream, CUstream public_stream, int64_t now, HandOver hand_over) {
        stream_at_hand = stream;
        if (open && is_full(*open, now)) seal(*open);
        drain_finished();
        if (!open && !open_bank(now, hand_over)) {
            ++not_watched;
            return {};
        }
        if (!pages.bring_up_to_date(call, stream)) {
            ++not_watched;
            return {};
        }
        open->streams.emplace(stream, public_stream);
        ++open->in_flight;
        return {open, open->used++};
    }

    /* The launch of a place has been handed to the device. */
    void launched(const Place &place, const Launch &launch) {
        if (!place.bank->in_flight) return; /* given up meanwhile, and counted */
        std::vector<Launch> &mine = launches[index(*place.bank)];
        if (mine.size() <= place.slot) mine.resize(place.slot + 1);
        mine[place.slot] = launch;
        leave(*place.bank);
    }

    /* The launch of a place was not made after all. */
    void abandoned(const Place &place) {
        if (place.bank->in_flight) leave(*place.bank);
    }

    /* Drain everything, waiting for the device for at most so long after `progress` last changed; return
     * launches given up, those that have not come back from the driver among them. */
    template <class Progress> uint64_t finish(uint64_t wait_ns, Progress progress) {
        if (open) seal(*open);
        uint64_t until = pasta_clock(CLOCK_MONOTONIC) + wait_ns;
        uint64_t lost = 0, seen = progress();
        for (Bank &bank : banks) {
            if (bank.state != Bank::SEALED) continue;
            uint32_t unsure = std::exchange(bank.in_flight, 0);
            mark(bank);
            while (!bank.reached_end() && pasta_clock(CLOCK_MONOTONIC) < until) {
                usleep(50);
                if (uint64_t now = progress(); now != seen) seen = now, until = pasta_clock(CLOCK_MONOTONIC) + wait_ns;
            }
            lost += bank.reached_end() && drain(bank) ? unsure : bank.used;
        }
        return lost;
    }

    /* A stream is about to end. Its launches may still run, and others may be under way in other threads: nothing is
     * waited for, nor drained. */
    void stream_ends(Sanitizer_StreamHandle stream) {
        if (stream_at_hand == stream) stream_at_hand = nullptr;
        pages.forget(stream);
        for (Bank &bank : banks)
            if (bank.state == Bank::OPEN || bank.state == Bank::SEALED) bank.mark_last(call, stream, is_capturing);
    }

    /* Whether the analyst has read all that was drained; it may be asked without a lock. */
    bool is_read() const {
        return std::none_of(banks.begin(), banks.end(), [](const Bank &bank) { return bank.state == Bank::DRAINED; });
    }

    std::vector<Drained> take_drained() { return std::move(drained); }
    bool has_drained() const { return !drained.empty(); }
    template <class IsCapturing> void set_capture_test(IsCapturing test) { is_capturing = test; }

  private:
    static constexpr int64_t MOST_AGE = 50'000'000;
    static constexpr uint64_t MOST_PATIENCE = 15; /* times as long as without records */
    static constexpr size_t PAGE_WORD_BYTES = 2 << 20; /* of each bank */
    const MemoryOptions &options;
    Sanitizer &call;
    std::array<Bank, BANKS> banks;
    std::array<std::vector<Launch>, BANKS> launches;
    std::vector<Drained> drained;
    Bank *open = nullptr;
    Sanitizer_StreamHandle stream_at_hand = nullptr;
    bool (*is_capturing)(CUstream) = nullptr;
    uint32_t leaves_per_launch = 1;
    bool stalled = false; /* no bank came free in time, and none has since */

    uint64_t records_read() const { return ring_host ? ring_host->tail : 0; }

    size_t index(const Bank &bank) const { return static_cast<size_t>(&bank - banks.data()); }

    uint32_t leaf_words() const {
        return OWNER_WORDS + mark_words(options.granule_shift) + (options.counts ? counter_words(options.granule_shift) : 0);
    }

    BankLayout layout(uint32_t page_count) const {
        uint32_t slots = std::clamp<uint32_t>(PAGE_WORD_BYTES / (page_count * 4ull), 4, MOST_SLOTS);
        BankLayout wanted{slots, page_count, 0, leaf_words(), options.tallies() ? TALLIES : 0};
        size_t share = options.device_bytes / BANKS - options.device_bytes / 16;
        size_t rest = wanted.leaves_at() + wanted.page_words_bytes() + slots * sizeof(Slot) + wanted.boxes_bytes();
        size_t fitting = share > rest ? (share - rest) / wanted.leaf_bytes() : 0;
        wanted.leaves = static_cast<uint32_t>(std::clamp<size_t>(fitting, 64, NO_COUNTER / wanted.leaf_words)); /* a Box numbers their words */
        return wanted;
    }

    /* So few that their leaves will do, as far as the last launches tell. */
    uint32_t slot_limit(const Bank &bank) const {
        return std::clamp<uint32_t>(bank.layout.leaves / (2 * leaves_per_launch), 1, bank.layout.slots);
    }

    bool is_full(const Bank &bank, int64_t now) const {
        return bank.used >= slot_limit(bank) || pages.size() > bank.layout.pages || (bank.used && now - bank.opened > MOST_AGE);
    }

    bool make_ring(Sanitizer_StreamHandle stream) {
        void *control = nullptr, *host = nullptr, *ring_records = nullptr;
        size_t bytes = RING_RECORDS * sizeof(Record);
        bool made = call("device memory", call.library.allocate, handle, &control, sizeof(RingControl)) &&
                    call("pinned memory", call.library.allocate_host, handle, &host, sizeof(RingHost)) &&
                    call("pinned memory", call.library.allocate_host, handle, &ring_records, bytes) &&
                    call("clearing", call.library.set_memory, control, 0, sizeof(RingControl), stream);
        if (!made) return false;
        std::memset(host, 0, sizeof(RingHost));
        std::memset(ring_records, 0, bytes);
        ring = static_cast<RingControl *>(control);
        ring_host = static_cast<RingHost *>(host);
        records = static_cast<Record *>(ring_records);
        return true;
    }

    void leave(Bank &bank) {
        --bank.in_flight;
        if (bank.state == Bank::SEALED) mark(bank);
    }

    bool describe(Bank &bank, Sanitizer_StreamHandle stream) {
        Slot common{};
        common.chunk_of = pages.chunks();
        common.page_of = pages.pages();
        common.reads_tensor_maps = reads_tensor_maps;
        common.ring = ring;
        common.ring_host = ring_host;
        common.records = records;
        common.granule_shift = options.granule_shift;
        common.every_space = options.every_space;
        common.some_blocks = !options.blocks.all();
        common.first_block = options.blocks.first;
        common.last_block = options.blocks.last;
        return bank.describe(call, common, stream);
    }

    void seal(Bank &bank) {
        if (&bank == open) open = nullptr;
        bank.state = bank.used ? Bank::SEALED : Bank::FREE;
        if (bank.used) mark(bank);
    }

    void mark(Bank &bank) {
        if (!bank.marked && bank.in_flight == 0) bank.mark_end(call, is_capturing);
    }

    void drain_finished() {
        for (Bank &bank : banks) {
            if (bank.state != Bank::SEALED) continue;
            mark(bank);
            if (bank.reached_end()) drain(bank);
        }
    }

    Sanitizer_StreamHandle draining_stream() const {
        Sanitizer_StreamHandle own = own_stream.load();
        return own ? own : stream_at_hand;
    }

    /* False: that failed, and may be tried again. */
    bool drain(Bank &bank) {
        if (!bank.drain(call, draining_stream())) return false;
        Drained result{&bank, std::exchange(launches[index(bank)], {}), {}, {}};
        result.launches.resize(std::min<size_t>(result.launches.size(), bank.used));
        uint32_t leaves = std::min(bank.control().leaves, bank.layout.leaves);
        for (uint32_t leaf = 0; leaf < leaves; ++leaf) { /* a kernel that was ended may leave nonsense */
            uint32_t page = bank.leaf(leaf)[1];
            result.leaf_pages.push_back(page < pages.size() ? pages.address(page) : Drained::NOWHERE);
        }
        if (!bank.page_words().empty())
            for (uint32_t page = 0; page < pages.size(); ++page) result.page_address.push_back(pages.address(page));
        leaves_per_launch = std::max(1u, (bank.control().leaves + bank.used - 1) / bank.used);
        drained.push_back(std::move(result));
        return true;
    }

    Bank *free_bank() {
        for (Bank &bank : banks)
            if (bank.state == Bank::FREE) return &bank;
        return nullptr;
    }

    /* Kernels that wait for the host may hold every bank: then the program must not wait for them. At level
     * `access` kernels take long, and are given longer while records are read; not for good, as one that polls
     * memory until the host writes there makes records too. */
    template <class HandOver> bool open_bank(int64_t now, HandOver hand_over) {
        const uint64_t begin = pasta_clock(CLOCK_MONOTONIC), patience = options.wait_ms * 1'000'000;
        uint64_t seen = records_read(), until = begin + (stalled ? 0 : patience);
        Bank *bank = free_bank();
        while (!bank && pasta_clock(CLOCK_MONOTONIC) < until) {
            drain_finished();
            hand_over();
            usleep(20);
            bank = free_bank();
            if (uint64_t read = records_read(); read != seen) {
                seen = read;
                until = std::min(pasta_clock(CLOCK_MONOTONIC) + patience, begin + MOST_PATIENCE * patience);
            }
        }
        stalled = !bank;
        if (!bank || !prepare(*bank)) return false;
        bank->open(now);
        open = bank;
        return true;
    }

    bool prepare(Bank &bank) {
        if (pages.size() > bank.layout.pages && !grow(bank)) return false;
        if (bank.ready) return true;
        Sanitizer_StreamHandle stream = draining_stream();
        return bank.ready = bank.clear(call, stream) && describe(bank, stream) && call("waiting", call.library.synchronize, stream);
    }

    bool grow(Bank &bank) {
        uint32_t wanted = bank.layout.pages;
        while (wanted < pages.size() + pages.size() / 8) wanted *= 2;
        return bank.grow(call, handle, wanted, layout(wanted).slots);
    }
};

} // namespace pasta

#endif
