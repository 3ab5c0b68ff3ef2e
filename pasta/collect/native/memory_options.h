/* What the memory collector is asked to look at. */
#ifndef PASTA_MEMORY_OPTIONS_H
#define PASTA_MEMORY_OPTIONS_H

#include "memory_state.h"
#include "settings.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <regex>

namespace pasta {

/* Launches by number: first, last and every how many-th. */
struct LaunchRange {
    uint64_t first = 0, last = std::numeric_limits<uint64_t>::max(), every = 1;

    static LaunchRange from(const std::string &text) {
        LaunchRange range;
        size_t colon = text.find(':');
        if (text.empty() || colon == std::string::npos) return range;
        range.first = std::strtoull(text.c_str(), nullptr, 10);
        size_t second = text.find(':', colon + 1);
        std::string last = text.substr(colon + 1, second == std::string::npos ? second : second - colon - 1);
        if (!last.empty()) range.last = std::strtoull(last.c_str(), nullptr, 10);
        if (second != std::string::npos) range.every = std::max(1ull, std::strtoull(text.c_str() + second + 1, nullptr, 10));
        return range;
    }

    bool all() const { return first == 0 && last == std::numeric_limits<uint64_t>::max() && every == 1; }

    /* Whether launches from this one on, up to the next that is not in the range, may be chosen. */
    bool may_have(uint64_t number) const { return number >= first && number <= last; }

    bool has(uint64_t number) const { return number >= first && number <= last && (number - first) % every == 0; }
};

/* What is told of tensor copies (TMA): what each reads; or, as kernels that bear no patches there take their own time, what
 * tensor maps among the arguments of a launch span; or nothing. */
enum class TensorLoads { WATCHED, MAPPED, LEFT };

struct MemoryOptions {
    static constexpr const char *NAME = "cuda.memory";

    bool records = false;       /* level `access` */
    bool counts = false;        /* levels `counts` and `access` */
    bool every_space = false;   /* shared, local and remote shared memory too */
    TensorLoads tensor_loads = TensorLoads::WATCHED;
    bool switched = false;      /* kernels bear patches only while launches are watched */
    bool instructions = false;  /* accesses by instruction */
    bool events = false;
    bool stacks = false;        /* of launches */
    bool serial = false;        /* wait for each launch to end */
    bool written = true;        /* whether records become rows, or are only counted */
    uint32_t granule_shift = 9;
    uint32_t block_shift = 16; /* of rows of blocks */
    uint64_t device_bytes = 64ull << 20; /* of each context */
    uint64_t wait_ms = 2000;
    LaunchRange launches, blocks;
    std::optional<std::regex> match;
    std::optional<std::regex> range; /* of NVTX, in which launches are watched */
    std::string refusal;             /* what of all this cannot be done; empty: nothing */

    static MemoryOptions from(const std::string &settings) {
        MemoryOptions options;
        auto text = [&](const char *key) { return json_text(settings, NAME, key).value_or(""); };
        std::string level = text("level");
        options.records = level == "access";
        options.instructions = text("instructions") == "yes" && !options.records;
        options.counts = options.records || options.instructions || level == "counts";
        options.every_space = text("spaces") == "all";
        options.tensor_loads = tensor_loads_of(text("tensor_loads"), options.counts);
        options.switched = text("patches") == "switched";
        options.events = text("events") == "yes";
        options.serial = text("serial") == "yes";
        if (std::string pattern = text("range"); !pattern.empty()) {
            options.range = compiled(pattern);
            if (!options.range) options.refusal = "--in-range " + pattern + " is no regular expression to C++";
        }
        options.stacks = json_flag(settings, NAME, "stacks");
        options.written = text("records") != "counted";
        options.granule_shift = shift_of(text("granularity"), options.granule_shift);
        options.block_shift = std::max(shift_of(text("block"), options.records ? options.granule_shift : 16), options.granule_shift);
        options.device_bytes = number_of(text("device_bytes"), options.device_bytes);
        options.wait_ms = number_of(text("wait_ms"), options.wait_ms);
        options.launches = LaunchRange::from(text("launches"));
        options.blocks = LaunchRange::from(text("blocks"));
        if (std::string pattern = text("match"); !pattern.empty()) options.match = compiled(pattern);
        return options;
    }

    bool wants(const std::string &kernel) const { return !match || std::regex_search(kernel, *match); }

    /* Whether a launch is watched where these ranges are open. */
    template <class Ranges> bool wants_in(const Ranges &open) const {
        if (!range) return true;
        return std::any_of(open.begin(), open.end(), [&](const auto &each) { return std::regex_search(each.name, *range); });
    }

    bool tallies() const { return instructions || events; }

    /* With which the names of the wanted patches begin. */
    std::string patches() const {
        if (records) return "access_";
        return instructions ? "instructions_" : counts ? "counts_" : "touch_";
    }

    /* Whether a slot says something of its launch that the device must know beforehand. */
    bool slots_differ() const { return records || tallies(); }

  private:
    /* Only to be watched tells how often. */
    static TensorLoads tensor_loads_of(const std::string &text, bool counts) {
        if (text == "none") return TensorLoads::LEFT;
        return text == "watched" || (text != "mapped" && counts) ? TensorLoads::WATCHED : TensorLoads::MAPPED;
    }

    static uint64_t number_of(const std::string &text, uint64_t otherwise) {
        return text.empty() ? otherwise : std::strtoull(text.c_str(), nullptr, 10);
    }

    static uint32_t shift_of(const std::string &text, uint32_t otherwise) {
        uint64_t bytes = number_of(text, 1ull << otherwise);
        bool fits = std::has_single_bit(bytes) && bytes >= 32 && bytes <= 1ull << PAGE_SHIFT;
        return fits ? static_cast<uint32_t>(std::countr_zero(bytes)) : otherwise;
    }

    static std::optional<std::regex> compiled(const std::string &pattern) {
        try {
            return std::regex(pattern);
        } catch (const std::regex_error &) { /* the receiver, which has other expressions, leaves out the rest */
            return std::nullopt;
        }
    }
};

} // namespace pasta

#endif
