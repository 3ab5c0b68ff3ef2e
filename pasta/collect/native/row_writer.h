/* Rows of the threads of a process on their way into one ring of the channel.
 *
 * A thread appends to queues of its own without a lock. Whoever holds the writer's lock takes rows
 * out of them into the ring: the writer's own thread every 100 ms, or a thread whose queue is full.
 * A row becomes visible in a queue after its texts were given ids, and is taken out before these
 * are written, so that texts are in the ring before their use. */
#ifndef PASTA_ROW_WRITER_H
#define PASTA_ROW_WRITER_H

#include "interned.h"
#include "pasta_channel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace pasta {

constexpr uint32_t QUEUE_ROWS = 4096; /* a power of two */
constexpr auto FLUSH_EVERY = std::chrono::milliseconds(100);
constexpr uint32_t ROW_BYTES = 96;    /* at most, with what a batch needs besides */
inline const uint64_t UNKNOWN_IDS[QUEUE_ROWS] = {};

struct SpanColumns {
    static constexpr const char *TABLE = "span";
    int64_t tid[QUEUE_ROWS], ts[QUEUE_ROWS], dur[QUEUE_ROWS];
    int64_t sequence[QUEUE_ROWS], forward_tid[QUEUE_ROWS];
    uint64_t stack[QUEUE_ROWS];
    uint32_t level[QUEUE_ROWS], name[QUEUE_ROWS], shapes[QUEUE_ROWS], types[QUEUE_ROWS];
    uint8_t has_sequence[QUEUE_ROWS], has_forward_tid[QUEUE_ROWS];

    template <class Visit> void each(uint32_t at, Visit visit) const {
        visit("tid", tid + at);
        visit("ts", ts + at);
        visit("dur", dur + at);
        visit("level_text", level + at);
        visit("name_text", name + at);
        visit("sequence", sequence + at, has_sequence + at);
        visit("forward_tid", forward_tid + at, has_forward_tid + at);
        visit("input_shapes_texts", shapes + at);
        visit("input_types_texts", types + at);
        visit("external_id", UNKNOWN_IDS);
        visit("stack_id", stack + at);
    }
};

struct MemoryColumns {
    static constexpr const char *TABLE = "memory";
    int64_t tid[QUEUE_ROWS], ts[QUEUE_ROWS], bytes[QUEUE_ROWS];
    int64_t total_allocated[QUEUE_ROWS], total_reserved[QUEUE_ROWS];
    uint64_t address[QUEUE_ROWS], object[QUEUE_ROWS];
    uint32_t event[QUEUE_ROWS], space[QUEUE_ROWS];
    int32_t device[QUEUE_ROWS];

    template <class Visit> void each(uint32_t at, Visit visit) const {
        visit("tid", tid + at);
        visit("device", device + at);
        visit("ts", ts + at);
        visit("event_text", event + at);
        visit("space_text", space + at);
        visit("address", address + at);
        visit("bytes", bytes + at);
        visit("total_allocated", total_allocated + at);
        visit("total_reserved", total_reserved + at);
        visit("object_id", object + at);
        visit("stack_id", UNKNOWN_IDS);
    }
};

/* Rows of one table: one thread appends, one at a time takes. */
template <class Columns> struct Queue {
    std::atomic<uint64_t> appended{0}, taken{0};
    Columns columns;

    bool full() const {
        return appended.load(std::memory_order_relaxed) - taken.load(std::memory_order_acquire) ==
               QUEUE_ROWS;
    }
    uint32_t next() const { return appended.load(std::memory_order_relaxed) % QUEUE_ROWS; }
    void publish() {
        appended.store(appended.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
};

/* A number that one thread changes and others read. */
struct Counter {
    std::atomic<uint64_t> value{0};
    void add(uint64_t by) {
        value.store(value.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
    }
    uint64_t get() const { return value.load(std::memory_order_relaxed); }
};

struct Signature {
    uint32_t shapes = 0, types = 0;
};

class RowWriter;

/* What a recorded thread has of its own. */
struct ThreadRows {
    RowWriter *writer;
    int64_t tid = 0;
    Counter events, sampled_ns;
    Queue<SpanColumns> spans;
    Queue<MemoryColumns> memory;
    Cache<uint32_t> names;
    Cache<Signature> signatures;
    std::vector<uint64_t> key;

    explicit ThreadRows(RowWriter *owner) : writer(owner) {}
};

/* The writer of one recording. It is never freed: a thread may be inside of it as it stops. */
class RowWriter {
  public:
    Interned text, texts;
    std::atomic<uint64_t> failures{0}; /* events that could not be recorded */

    RowWriter(const char *folder, int32_t rank, int64_t clock_offset) : offset(clock_offset) {
        failed = pasta_ring_open(&ring, folder, rank);
        uint32_t slot_bytes = ring.header ? ring.header->slot_bytes : 0;
        largest_text = slot_bytes / 4;
        rows_of_slot = std::max(slot_bytes / ROW_BYTES, 1u);
    }

    int error() const { return failed; }
    bool of_this_process() const { return ring.pid == getpid(); }
    int64_t clock() const { return static_cast<int64_t>(pasta_clock(CLOCK_MONOTONIC)) + offset; }

    uint32_t text_id(std::string_view value) { return text.id({clean(value, largest_text)}); }

    /* 0 if the list is too large for the ring. */
    uint32_t texts_id(TextList list) {
        size_t size = 0;
        for (const std::string &item : list) size += item.size() + sizeof(int32_t);
        return size > largest_text ? 0 : texts.id(std::move(list));
    }

    /* Start to write what waits every FLUSH_EVERY. */
    void start() {
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
        flusher = std::thread([this] { run(); });
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        pthread_setname_np(flusher.native_handle(), "pasta-rows");
    }

    void stop() {
        {
            std::lock_guard<std::mutex> guard(stopping);
            stopped = true;
        }
        wake.notify_one();
        if (flusher.joinable()) flusher.join();
        flush(true);
        std::lock_guard<std::mutex> guard(writing);
        dropped_before = dropped_now();
        pasta_ring_close(&ring);
    }

    /* In a child after a fork: let go of the parent's ring, and touch no lock of it. */
    void forget() { pasta_ring_close(&ring); }

    ThreadRows *join() {
        std::lock_guard<std::mutex> guard(joining);
        ThreadRows *rows;
        if (idle.empty()) {
            threads.push_back(rows = new ThreadRows(this));
        } else {
            rows = idle.back();
            idle.pop_back();
        }
        rows->tid = static_cast<int64_t>(syscall(SYS_gettid));
        return rows;
    }

    /* The calling thread ends; what it recorded goes on waiting. */
    void leave(ThreadRows *rows) {
        std::lock_guard<std::mutex> guard(joining);
        idle.push_back(rows);
    }

    /* Write what waits. What finds no room in the ring goes on waiting, or with `drop` is dropped. */
    void flush(bool drop = false) {
        std::vector<ThreadRows *> known;
        {
            std::lock_guard<std::mutex> guard(joining);
            known = threads;
        }
        for (ThreadRows *rows : known) write(*rows, drop);
    }

    /* Empty the thread's queues. */
    void make_room(ThreadRows &rows) { write(rows, true); }

    /* events, rows written, ns in callbacks, rows dropped, failures, texts refused */
    void counters(uint64_t *values) {
        std::scoped_lock guard(joining, writing);
        memset(values, 0, COUNTERS * sizeof(*values));
        for (ThreadRows *rows : threads) {
            values[0] += rows->events.get();
            values[2] += rows->sampled_ns.get();
        }
        values[1] = written;
        values[3] = dropped_before + dropped_now();
        values[4] = failures.load();
        values[5] = text.refused + texts.refused;
    }
    static constexpr size_t COUNTERS = 6;

  private:
    const int64_t offset;
    int failed;
    size_t largest_text;
    uint64_t rows_of_slot; /* so many fit, so that none is dropped for want of a second slot */
    std::mutex writing; /* guards the ring, and the taking of rows */
    pasta_ring ring;
    uint64_t written = 0, dropped_before = 0;
    std::mutex joining; /* guards these two */
    std::vector<ThreadRows *> threads, idle;
    std::mutex stopping;
    std::condition_variable wake;
    bool stopped = false;
    std::thread flusher;

    void run() {
        std::unique_lock<std::mutex> guard(stopping);
        while (!wake.wait_for(guard, FLUSH_EVERY, [this] { return stopped; })) {
            guard.unlock();
            try {
                flush();
            } catch (const std::bad_alloc &) { /* rows wait for the next time */
            }
            guard.lock();
        }
    }

    uint64_t dropped_now() const {
        if (!ring.header) return ring.unplaced_rows;
        return ring.header->full_rows + ring.header->large_rows + ring.unplaced_rows;
    }

    bool has_room() {
        return ring.header && of_this_process() && pasta_wait_for_slot(&ring);
    }

    void write(ThreadRows &rows, bool drop) {
        std::lock_guard<std::mutex> guard(writing);
        uint64_t spans = rows.spans.appended.load(std::memory_order_acquire);
        uint64_t memory = rows.memory.appended.load(std::memory_order_acquire);
        bool told = write_texts("text", text) && write_texts("texts", texts);
        take(rows.spans, spans, told, drop);
        take(rows.memory, memory, told, drop);
    }

    template <class Columns>
    void take(Queue<Columns> &queue, uint64_t until, bool told, bool may_drop) {
        for (uint64_t from = queue.taken.load(std::memory_order_relaxed); from < until;) {
            auto at = static_cast<uint32_t>(from % QUEUE_ROWS);
            uint64_t rows = std::min<uint64_t>({until - from, QUEUE_ROWS - at, rows_of_slot});
            bool room = told && has_room();
            if (!room && !may_drop) return;
            if (room) write_columns(queue.columns, at, rows);
            else drop(rows);
            queue.taken.store(from += rows, std::memory_order_release);
        }
    }

    template <class Columns> void write_columns(const Columns &source, uint32_t at, uint64_t rows) {
        pasta_column columns[16];
        size_t count = 0;
        int table = pasta_find_table(&ring, Columns::TABLE);
        source.each(at, [&](const char *name, const void *values, const uint8_t *valid = nullptr) {
            int column = pasta_find_column(&ring, table, name);
            if (column >= 0) columns[count++] = {column, values, nullptr, nullptr, valid};
        });
        uint64_t dropped = dropped_now();
        pasta_write(&ring, table, columns, count, rows);
        written += rows - (dropped_now() - dropped);
    }

    void drop(uint64_t rows) {
        if (!ring.header) {
            ring.unplaced_rows += rows;
            return;
        }
        pasta_add(&ring.header->full_batches, 1);
        pasta_count(&ring.header->full_rows, &ring.header->full_since, rows);
    }

    /* Write the texts that wait; if the ring does not take them all, they go on waiting. */
    bool write_texts(const char *name, Interned &interned) {
        Interned::Pending pending = interned.take();
        if (pending.lists.empty()) return true;
        if (!has_room()) {
            interned.put_back(std::move(pending));
            return false;
        }
        std::vector<uint32_t> ids;
        std::vector<int32_t> lists{0}, items{0};
        std::string bytes;
        for (const TextList &list : pending.lists) {
            ids.push_back(pending.first + static_cast<uint32_t>(ids.size()));
            for (const std::string &item : list) {
                bytes += item;
                items.push_back(static_cast<int32_t>(bytes.size()));
            }
            lists.push_back(static_cast<int32_t>(items.size() - 1));
        }
        int table = pasta_find_table(&ring, name);
        bool single = &interned == &text;
        const pasta_column columns[] = {
            {pasta_find_column(&ring, table, "id"), ids.data(), nullptr, nullptr, nullptr},
            {pasta_find_column(&ring, table, name), bytes.data(),
             single ? items.data() : lists.data(), single ? nullptr : items.data(), nullptr},
        };
        uint64_t dropped = dropped_now();
        pasta_write(&ring, table, columns, 2, ids.size());
        if (dropped_now() == dropped) return true;
        interned.put_back(std::move(pending));
        return false;
    }
};

} // namespace pasta

#endif
