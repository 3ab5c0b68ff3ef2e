/* What drained banks say, as rows; on a thread of its own, which never calls CUDA. */
#ifndef PASTA_MEMORY_ANALYST_H
#define PASTA_MEMORY_ANALYST_H

#include "memory_context.h"
#include "memory_objects.h"

#include <deque>
#include <unordered_map>

namespace pasta {

/* An allocation, a release, or a launch, in the order in which they happened. */
struct HostEvent {
    enum What { ALLOCATION, RELEASE, TENSOR, TENSOR_RELEASE, LAUNCH, DEVICE, RANGE } what;
    uint64_t moment = 0;
    int64_t ts = 0, tid = 0;
    int32_t device = 0;
    const char *text = ""; /* space, or the launching call */
    std::string range = {}; /* name of an NVTX range */
    uint64_t address = 0, bytes = 0, object = 0;
    Launch launch{};
    int64_t end = 0;
};

class MemoryAnalyst {
  public:
    MemoryAnalyst(MemoryRows &to, const MemoryOptions &asked) : rows(to), options(asked) {}

    void take(const HostEvent &event) {
        last_moment = std::max(last_moment, event.moment);
        switch (event.what) {
        case HostEvent::ALLOCATION:
            objects.allocate(event.address, event.bytes, event.object, event.moment, rows.text(event.text), event.device);
            rows.add_memory(event.tid, event.device, event.ts, true, event.text, event.address, event.bytes, event.object);
            break;
        case HostEvent::RELEASE:
            objects.release(event.address, event.moment);
            rows.add_memory(event.tid, event.device, event.ts, false, event.text, event.address, event.bytes, event.object);
            break;
        case HostEvent::TENSOR:
            tensors.allocate(event.address, event.bytes, event.object, event.moment, rows.tensor_space(), event.device);
            break;
        case HostEvent::TENSOR_RELEASE: tensors.release(event.address, event.moment); break;
        case HostEvent::LAUNCH: rows.add_launch(event.launch, event.text, event.end); break;
        case HostEvent::RANGE: rows.add_range(event.tid, event.ts, event.end, event.range); break;
        case HostEvent::DEVICE: break;
        }
    }

    void take(const Drained &drained) {
        const Bank &bank = *drained.bank;
        std::vector<std::vector<uint32_t>> leaves_of(drained.launches.size());
        for (uint32_t leaf = 0; leaf < drained.leaf_pages.size(); ++leaf) {
            uint32_t slot = bank.leaf(leaf)[0];
            if (slot < leaves_of.size() && drained.leaf_pages[leaf] != Drained::NOWHERE) leaves_of[slot].push_back(leaf);
        }
        for (uint32_t slot = 0; slot < drained.launches.size(); ++slot) take_launch(drained, slot, leaves_of[slot]);
        take_tallies(drained);
        if (bank.control().tallies_lost)
            rows.count_loss("counts of instructions that found no room: left out", bank.control().tallies_lost);
    }

    /* Forget what died long ago: no launch of that time is expected to be told of any more. */
    void forget(int64_t now) {
        history.emplace_back(now, last_moment);
        while (history.front().first < now - REMEMBERED) {
            objects.forget(history.front().second);
            tensors.forget(history.front().second);
            history.pop_front();
        }
    }

  private:
    struct Sum {
        Touched touched;
        uint32_t space = 0;
    };
    using Sums = std::map<uint64_t, Sum>; /* by object */

    /* What a launch did, at one granularity: its allocations, its tensors, and what is in none. */
    struct Account {
        Sums objects, tensors;
        Touched outside, in_objects, outside_tensors;
    };

    /* What patches saw of a page, beside what tensor maps span. */
    struct Seen {
        const Marks &marks;
        const TensorSpans &spans;

        Touched operator()(uint64_t begin, uint64_t end) const { return spans.beside(marks, begin, end); }
    };

    MemoryRows &rows;
    const MemoryOptions &options;
    static constexpr int64_t REMEMBERED = 60'000'000'000;
    Lives objects, tensors;
    uint64_t last_moment = 0;
    std::deque<std::pair<int64_t, uint64_t>> history; /* time, last moment before it */

    uint32_t granule() const { return 1u << options.granule_shift; }

    void take_launch(const Drained &drained, uint32_t slot, const std::vector<uint32_t> &leaves) {
        const Launch &launch = drained.launches[slot];
        if (launch.id == 0) return;
        const Totals &totals = drained.bank->totals(slot);
        const TensorSpans spans = launch.mapped ? TensorSpans(*launch.mapped, options.granule_shift) : TensorSpans();
        Account fine, whole;
        for (uint32_t leaf : leaves) {
            Marks marks(drained.leaf_pages[leaf], drained.bank->leaf(leaf) + OWNER_WORDS, options.granule_shift, options.counts);
            add_page(launch, {marks, spans}, drained.leaf_pages[leaf], fine);
        }
        add_spans(launch, spans, fine);
        if (totals.without_leaf) add_whole_pages(drained, slot, launch, spans, whole);
        write_objects(launch, fine, granule(), options.counts);
        write_objects(launch, whole, 1u << PAGE_SHIFT, false);
        if (!fine.outside_tensors.nothing())
            rows.add_object(launch, rows.tensor_space(), 0, granule(), fine.outside_tensors, options.counts);
        write_totals(launch, totals, fine, whole);
    }

    void add_page(const Launch &launch, const Seen &seen, uint64_t page, Account &account) {
        uint64_t end = page + PAGE_BYTES;
        auto outside = [&](uint64_t from, uint64_t to) { account.outside += seen(from, to); };
        each_life(objects, page, end, launch.moment, outside, [&](const Life &life) {
            account.in_objects += add_life(seen(life.begin, life.end), life, account.objects);
            if (options.counts) add_blocks(launch, seen.marks, life);
        });
        add_tensors(launch, page, end, seen, account);
    }

    /* What tensor maps span counts whole, whatever of it the launch copies. */
    void add_spans(const Launch &launch, const TensorSpans &spans, Account &account) {
        for (const Span &span : spans.all()) {
            auto spanned = [&](uint64_t from, uint64_t to) { return spans.touched(span.overlap(from, to)); };
            objects.each(span.begin, span.end, launch.moment, [&](const Life &life) {
                account.in_objects += add_life(spanned(life.begin, life.end), life, account.objects);
            });
            add_tensors(launch, span.begin, span.end, spanned, account);
        }
    }

    /* The same of tensors, and of what lies in an allocation and in no tensor. */
    template <class Touch> void add_tensors(const Launch &launch, uint64_t begin, uint64_t end, const Touch &touched, Account &account) {
        if (tensors.empty()) return;
        auto untyped = [&](uint64_t from, uint64_t to) {
            objects.each(from, to, launch.moment, [&](const Life &life) {
                account.outside_tensors += touched(std::max(from, life.begin), std::min(to, life.end));
            });
        };
        each_life(tensors, begin, end, launch.moment, untyped, [&](const Life &life) { add_life(touched(life.begin, life.end), life, account.tensors); });
    }

    /* Call `inside` with each object of a range, and `between` with each gap, less granules that an
     * object has a part of. */
    template <class Between, class Inside>
    void each_life(const Lives &lives, uint64_t begin, uint64_t end, uint64_t moment, Between between, Inside inside) const {
        uint64_t next = begin, mask = granule() - 1ull;
        lives.each(begin, end, moment, [&](const Life &life) {
            uint64_t gap_end = life.begin & ~mask;
            if (next < gap_end) between(next, gap_end);
            next = std::max(next, (life.end + mask) & ~mask);
            inside(life);
        });
        if (next < end) between(next, end);
    }

    static Touched add_life(const Touched &touched, const Life &life, Sums &sums) {
        if (touched.nothing()) return touched;
        Sum &sum = sums[life.id];
        sum.touched += touched;
        sum.space = life.space;
        return touched;
    }

    /* Blocks are numbered from the one in which the object begins. */
    void add_blocks(const Launch &launch, const Marks &marks, const Life &life) {
        uint64_t first = life.begin >> options.block_shift;
        marks.each_block(life.begin, life.end, options.block_shift, [&](uint64_t block, const uint64_t(&counts)[KINDS]) {
            rows.add_block(launch, life.space, life.id, static_cast<int64_t>(block - first), 1u << options.block_shift, counts);
        });
    }

    /* Pages for which there was no leaf bear two bits; a leaf of one granule stands for each. */
    void add_whole_pages(const Drained &drained, uint32_t slot, const Launch &launch, const TensorSpans &spans, Account &account) {
        const uint32_t *words = drained.bank->page_words().data() + static_cast<size_t>(slot) * drained.bank->layout.pages;
        for (size_t page = 0; page < drained.page_address.size() && page < drained.bank->layout.pages; ++page) {
            uint32_t marked = words[page] & WHOLE_PAGE ? words[page] & (MARK_READ | MARK_WRITTEN) : 0;
            if (!marked) continue;
            Marks marks(drained.page_address[page], &marked, PAGE_SHIFT, false);
            add_page(launch, {marks, spans}, drained.page_address[page], account);
        }
        rows.count_loss("pages of a launch without room for their granules: unique bytes at 2 MiB, not counted by object", drained.bank->totals(slot).without_leaf);
    }

    void write_objects(const Launch &launch, const Account &account, uint32_t granularity, bool counted) {
        for (const Sums *sums : {&account.objects, &account.tensors})
            for (auto &[object, sum] : *sums) rows.add_object(launch, sum.space, object, granularity, sum.touched, counted);
    }

    void write_totals(const Launch &launch, const Totals &totals, const Account &fine, const Account &whole) {
        uint64_t global[KINDS][SIZES] = {};
        for (const auto &shard : totals.global)
            for (uint32_t kind = 0; kind < KINDS; ++kind)
                for (uint32_t size = 0; size < SIZES; ++size) global[kind][size] += shard[kind][size];
        Touched all = fine.in_objects;
        all += fine.outside;
        all += whole.in_objects;
        rows.add_totals(launch, GLOBAL, global, totals.other_bytes[GLOBAL], &all, totals.without_leaf ? 1u << PAGE_SHIFT : granule());
        for (uint32_t space = SHARED; space < SPACES; ++space)
            rows.add_totals(launch, static_cast<Space>(space), totals.near[space], totals.other_bytes[space], nullptr, 0);
        const Touched &outside = fine.outside;
        uint64_t unknown[KINDS];
        for (uint32_t kind = 0; kind < KINDS; ++kind) unknown[kind] = totals.unknown[kind] + (options.counts ? outside.accesses[kind] : 0);
        if (!outside.nothing() || unknown[READ] || unknown[WRITE] || unknown[ATOMIC])
            rows.add_unknown(launch, unknown, outside, granule());
        if (totals.unsized_tensor_loads)
            rows.count_loss("tensor copies (TMA) whose tensor map is not read, as im2col, with steps, or of an unknown layout: counted here only", totals.unsized_tensor_loads);
    }

    void take_tallies(const Drained &drained) {
        const Bank &bank = *drained.bank;
        for (uint32_t at = 0; at < bank.layout.tallies; ++at) {
            const Tally &tally = bank.tallies()[at];
            uint64_t slot = tally.key >> 48;
            if (!tally.key || slot >= drained.launches.size() || drained.launches[slot].id == 0) continue;
            uint32_t event = tally.key >> 40 & 0xFF, pc = static_cast<uint32_t>(tally.key);
            const Launch &launch = drained.launches[slot];
            if (event >= FIRST_EVENT) rows.add_event(launch, pc, event_name(event), tally.count);
            else rows.add_instruction(launch, pc, static_cast<Kind>((event - 1) / SIZES), (event - 1) % SIZES, tally.count);
        }
    }

    static const char *event_name(uint32_t event) {
        static const char *const names[] = {"block_entry", "block_exit", "barrier", "warp_barrier", "shuffle", "device_call",
                                            "device_return", "device_malloc", "device_free", "cuda_barrier", "pipeline_commit",
                                            "pipeline_wait", "cluster_arrive", "cluster_wait", "matrix_product"};
        return names[event - FIRST_EVENT];
    }
};

} // namespace pasta

#endif
