/* Texts that travel once and go by ids, and caches that find an id without building the text. */
#ifndef PASTA_INTERNED_H
#define PASTA_INTERNED_H

#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pasta {

/* Never 0. */
inline uint64_t hash_bytes(const void *data, size_t bytes) {
    constexpr uint64_t FACTOR = 0x9E3779B97F4A7C15u;
    const char *next = static_cast<const char *>(data);
    uint64_t hash = bytes * FACTOR, word;
    for (; bytes >= sizeof(word); bytes -= sizeof(word), next += sizeof(word)) {
        memcpy(&word, next, sizeof(word));
        hash = (hash ^ word) * FACTOR;
        hash ^= hash >> 32;
    }
    word = 0;
    memcpy(&word, next, bytes);
    hash = (hash ^ word) * FACTOR;
    return (hash ^ hash >> 29) | 1;
}

/* Values by keys of bytes, for one thread. One that is full forgets everything. */
template <class Value> class Cache {
  public:
    const Value *find(std::string_view key, uint64_t hash) const {
        for (size_t at = hash & (entries.size() - 1);; at = (at + 1) & (entries.size() - 1)) {
            const Entry &entry = entries[at];
            if (!entry.hash) return nullptr;
            if (entry.hash == hash && entry.bytes == key.size() &&
                !memcmp(keys.data() + entry.at, key.data(), key.size()))
                return &entry.value;
        }
    }

    void add(std::string_view key, uint64_t hash, const Value &value) {
        if (keys.size() + key.size() > MOST_BYTES) *this = Cache();
        if (2 * ++used > entries.size()) grow();
        place({hash, static_cast<uint32_t>(keys.size()), static_cast<uint32_t>(key.size()), value});
        keys.insert(keys.end(), key.begin(), key.end());
    }

  private:
    static constexpr size_t MOST_BYTES = 4 << 20;
    struct Entry {
        uint64_t hash = 0; /* 0: free */
        uint32_t at = 0, bytes = 0;
        Value value{};
    };
    std::vector<Entry> entries = std::vector<Entry>(256); /* as many as a power of two */
    std::vector<char> keys;
    size_t used = 0;

    void place(const Entry &entry) {
        size_t at = entry.hash & (entries.size() - 1);
        while (entries[at].hash) at = (at + 1) & (entries.size() - 1);
        entries[at] = entry;
    }

    void grow() {
        std::vector<Entry> old(2 * entries.size());
        old.swap(entries);
        for (const Entry &entry : old)
            if (entry.hash) place(entry);
    }
};

/* Return `text` as UTF-8 of at most `most` bytes, with '?' for each byte that is none. */
inline std::string clean(std::string_view text, size_t most) {
    std::string result(text.substr(0, most));
    for (size_t at = 0; at < result.size();) {
        const auto *byte = reinterpret_cast<const uint8_t *>(result.data()) + at;
        size_t bytes = *byte < 0x80 ? 1 : *byte >= 0xC2 && *byte < 0xE0 ? 2 : *byte >> 4 == 0xE ? 3 : *byte >= 0xF0 && *byte < 0xF5 ? 4 : 0;
        bool sound = bytes && at + bytes <= result.size();
        for (size_t next = 1; sound && next < bytes; ++next) sound = byte[next] >> 6 == 2;
        if (sound && bytes > 2) { /* neither too long a form, nor a surrogate, nor beyond Unicode */
            unsigned head = static_cast<unsigned>(byte[0]) << 8 | byte[1];
            sound = bytes == 3 ? head >= 0xE0A0 && (head < 0xEDA0 || head >= 0xEE80)
                               : head >= 0xF090 && head < 0xF490;
        }
        if (!sound) result[at] = '?';
        at += sound ? bytes : 1;
    }
    return result;
}

using TextList = std::vector<std::string>;

/* The ids of texts, or of lists of texts, in one ring; from 1. For any thread.
 *
 * Memory is bounded: a new text that comes after MOST_BYTES has the id 0, which is null, unless it is `needed`. */
class Interned {
  public:
    /* Texts that have an id and are not in the ring. */
    struct Pending {
        uint32_t first = 1;
        std::vector<TextList> lists;
    };
    std::atomic<uint64_t> refused{0};

    uint32_t id(TextList list, bool needed = false) {
        std::string key;
        for (const std::string &text : list) key.append(text).push_back('\x1f');
        std::lock_guard<std::mutex> guard(lock);
        if (auto known = ids.find(key); known != ids.end()) return known->second;
        if ((bytes += key.size() + sizeof(TextList)) > MOST_BYTES && !needed) {
            ++refused;
            return 0;
        }
        auto fresh = static_cast<uint32_t>(ids.size() + 1);
        ids.emplace(std::move(key), fresh);
        pending.lists.push_back(std::move(list));
        return fresh;
    }

    Pending take() {
        std::lock_guard<std::mutex> guard(lock);
        Pending taken{pending.first, {}};
        taken.lists.swap(pending.lists);
        pending.first += static_cast<uint32_t>(taken.lists.size());
        return taken;
    }

    /* Take back what could not be written, to be written again. */
    void put_back(Pending taken) {
        std::lock_guard<std::mutex> guard(lock);
        for (TextList &list : pending.lists) taken.lists.push_back(std::move(list));
        pending = std::move(taken);
    }

  private:
    static constexpr size_t MOST_BYTES = 32 << 20;
    std::mutex lock;
    std::unordered_map<std::string, uint32_t> ids;
    Pending pending;
    size_t bytes = 0;
};

} // namespace pasta

#endif
