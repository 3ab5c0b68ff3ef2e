/* Rows of `sample`, `frame`, `thread`, `process` and `loss` of what a log holds. For one thread, which is none that is sampled. */
#ifndef PASTA_SAMPLE_ROWS_H
#define PASTA_SAMPLE_ROWS_H

#include "sample_log.h"
#include "settings.h"
#include "table_writer.h"

#include <climits>
#include <fstream>
#include <iterator>

namespace pasta {

class SampleRows {
  public:
    SampleRows(const char *folder, int32_t rank, int64_t clock_offset) : ring(folder, rank), offset(clock_offset) {}

    int error() const { return ring.error(); }

    int64_t clock() const { return static_cast<int64_t>(pasta_clock(CLOCK_MONOTONIC)) + offset; }

    void add_process(const std::string &framework) {
        char host[HOST_NAME_MAX + 1] = "";
        gethostname(host, sizeof(host) - 1);
        processes.add(ring, getppid(), text(host), text(command_line()), clock(), text(framework), 0);
        processes.write(ring);
    }

    void add_thread(int64_t tid, std::string_view name) { threads.add(ring, tid, text(name), 0); }

    void add_loss(const char *reason, uint64_t count) {
        if (!count) return;
        auto [known, is_new] = lost.try_emplace(reason, Lost{0, clock()});
        known->second.count += count;
    }
    void write_losses() {
        for (auto &[reason, each] : std::exchange(lost, {})) losses.add(ring, ring.reason_id("cpu"), ring.reason_id(reason), each.count, each.first_ts);
        if (uint64_t refused = ring.text.refused.exchange(0))
            losses.add(ring, ring.reason_id("cpu"), ring.reason_id("names beyond the first 32 MB of different ones: left out"), refused, clock());
        losses.write(ring);
    }

    /* Add the samples of a log; tell `met(tid)` of each one's thread. */
    template <class Met> void add(const char *bytes, size_t count, Met met) {
        for (Reader read{bytes, bytes + count}; read.at < read.end;) {
            switch (read.value<Entry>()) {
            case Entry::PLACE: add_place(read); break;
            case Entry::STACK: add_stack(read); break;
            case Entry::SAMPLE: met(add_sample(read.value<SampleEntry>())); break;
            }
        }
    }

    void write() {
        frames.write(ring);
        samples.write(ring);
        threads.write(ring);
    }

  private:
    struct Reader {
        const char *at, *end;
        template <class Value> Value value() {
            Value read;
            memcpy(&read, at, sizeof(read));
            at += sizeof(read);
            return read;
        }
        std::string characters(uint8_t width, size_t count) {
            const char *begin = at;
            at += width * count;
            return utf8_of(begin, width, count);
        }
    };
    struct Place {
        uint32_t function, file;
        int32_t line;
    };
    struct Lost {
        uint64_t count;
        int64_t first_ts;
    };
    static constexpr uint64_t NUMBERED = 1ull << 24, MILLISECONDS = 1ull << 28;

    Ring ring;
    const int64_t offset;
    /* Above the ids that others of this process give, and others than before it became another program. */
    const uint64_t first = (MILLISECONDS + pasta_clock(CLOCK_MONOTONIC) / 1'000'000 % MILLISECONDS) * NUMBERED;
    std::unordered_map<std::string, Lost> lost;
    std::unordered_map<uint64_t, Place> places;
    std::unordered_map<uint64_t, uint64_t> stacks;    /* key -> id */
    std::unordered_map<std::string, uint64_t> by_lines; /* stacks that differ in instructions, but in no line, are one */
    Table<int64_t, int64_t, uint32_t, uint64_t, double> samples{"sample", "tid", "ts", "kind_text", "stack_id", "weight"};
    Table<uint64_t, int32_t, uint32_t, uint32_t, int32_t, uint32_t, uint32_t> frames{
        "frame", "stack_id", "depth", "function_text", "file_text", "line", "language_text", "library_text"};
    Table<int64_t, uint32_t, uint64_t> threads{"thread", "tid", "name_text", "stack_id"};
    Table<int64_t, uint32_t, uint32_t, int64_t, uint32_t, uint64_t> processes{
        "process", "parent_pid", "host_text", "command_text", "started", "framework_text", "stack_id"};
    Table<uint32_t, uint32_t, uint64_t, int64_t> losses{"loss", "collector_text", "reason_text", "count", "first_ts"};

    uint32_t text(std::string_view value) { return ring.text_id(value); }

    void add_place(Reader &read) {
        auto head = read.value<PlaceHead>();
        uint32_t function = text(read.characters(head.name_width, head.name_count));
        uint32_t file = text(read.characters(head.file_width, head.file_count));
        places[head.key] = {function, file, head.line};
    }

    void add_stack(Reader &read) {
        auto head = read.value<StackHead>();
        std::vector<Place> stack;
        for (uint32_t index = 0; index < head.depth; ++index) stack.push_back(places[read.value<uint64_t>()]);
        std::string lines(reinterpret_cast<const char *>(stack.data()), stack.size() * sizeof(Place));
        auto [known, is_new] = by_lines.emplace(std::move(lines), first + by_lines.size());
        stacks[head.key] = known->second;
        if (!is_new) return;
        auto depth = static_cast<int32_t>(stack.size());
        for (const Place &place : stack) frames.add(ring, known->second, --depth, place.function, place.file, place.line, text("python"), text(""));
    }

    int64_t add_sample(const SampleEntry &sample) {
        uint64_t id = sample.stack ? stacks[sample.stack] : 0;
        samples.add(ring, sample.tid, sample.ts + offset, text("on_cpu"), id, sample.weight);
        return sample.tid;
    }

    static std::string command_line() {
        std::ifstream file("/proc/self/cmdline");
        std::string line(std::istreambuf_iterator<char>(file), {});
        if (!line.empty() && !line.back()) line.pop_back();
        for (char &each : line)
            if (!each) each = ' ';
        return line;
    }
};

} // namespace pasta

#endif
