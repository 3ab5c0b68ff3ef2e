/* What the environment tells a native collector: channel, rank, clock, level. */
#ifndef PASTA_SETTINGS_H
#define PASTA_SETTINGS_H

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

namespace pasta {

/* The value of a number's key in the JSON that pasta writes; 0 where it is absent. */
inline int64_t json_number(const std::string &json, const std::string &key) {
    size_t at = json.find("\"" + key + "\": ");
    return at == std::string::npos ? 0 : std::strtoll(json.c_str() + at + key.size() + 4, nullptr, 10);
}

/* The inside of `collector`'s object; nothing where this collector was not asked for. */
inline std::optional<std::string> json_object(const std::string &json, const std::string &collector) {
    std::string mark = "\"" + collector + "\": {";
    size_t begin = json.find(mark);
    if (begin == std::string::npos) return std::nullopt;
    begin += mark.size();
    size_t end = begin;
    for (bool quoted = false; end < json.size() && (quoted || json[end] != '}'); ++end) {
        if (json[end] == '"') quoted = !quoted;
        else if (json[end] == '\\') ++end;
    }
    return json.substr(begin, end - begin);
}

/* Append a character's UTF-8. */
inline void append_utf8(std::string &text, uint32_t code) {
    auto tail = [&](uint32_t shift) { text += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
    if (code < 0x80) text += static_cast<char>(code);
    else if (code < 0x800) text += static_cast<char>(0xC0 | code >> 6), tail(0);
    else if (code < 0x10000) text += static_cast<char>(0xE0 | code >> 12), tail(6), tail(0);
    else text += static_cast<char>(0xF0 | code >> 18), tail(12), tail(6), tail(0);
}

/* The UTF-8 of so many characters of `width` bytes each. */
inline std::string utf8_of(const char *characters, uint8_t width, size_t count) {
    std::string text;
    for (size_t index = 0; index < count; ++index) {
        uint32_t code = 0;
        memcpy(&code, characters + index * width, width);
        append_utf8(text, code);
    }
    return text;
}

/* The string of JSON that begins at `at`, behind its quote, with its escapes undone. */
inline std::string json_unescaped(const std::string &json, size_t at) {
    static const std::string escapes = "nrtbf", meant = "\n\r\t\b\f";
    std::string text;
    auto unit = [&] { return static_cast<uint32_t>(std::strtoul(json.substr(at + 2, 4).c_str(), nullptr, 16)); };
    for (; at < json.size() && json[at] != '"'; ++at) {
        if (json[at] != '\\' || at + 1 == json.size()) {
            text += json[at];
        } else if (json[at + 1] != 'u') {
            size_t known = escapes.find(json[++at]);
            text += known == std::string::npos ? json[at] : meant[known];
        } else {
            uint32_t code = unit();
            at += 5;
            if (code >> 10 == 0xD800 >> 10 && json.compare(at + 1, 2, "\\u") == 0) { /* two halves of a character */
                ++at;
                code = 0x10000 + ((code & 0x3FF) << 10 | (unit() & 0x3FF));
                at += 5;
            }
            append_utf8(text, code);
        }
    }
    return text;
}

/* The text of `key` in the object of `collector`; nothing where there is none. */
inline std::optional<std::string> json_text(const std::string &json, const std::string &collector,
                                            const std::string &key) {
    std::optional<std::string> object = json_object(json, collector);
    std::string mark = "\"" + key + "\": \"";
    size_t at = object ? object->find(mark) : std::string::npos;
    if (at == std::string::npos) return std::nullopt;
    return json_unescaped(*object, at + mark.size());
}

/* Whether `key` in the object of `collector` is true. */
inline bool json_flag(const std::string &json, const std::string &collector, const std::string &key) {
    std::optional<std::string> object = json_object(json, collector);
    return object && object->find("\"" + key + "\": true") != std::string::npos;
}

inline std::optional<int64_t> environment_number(const char *name) {
    const char *text = std::getenv(name);
    if (!text || !*text || std::strspn(text, "0123456789") != std::strlen(text)) return std::nullopt;
    return std::strtoll(text, nullptr, 10);
}

/* The rank, as pasta/collect/target/ranks.py finds it. */
inline int32_t environment_rank() {
    static const char *const launchers[][2] = {
        {"RANK", "WORLD_SIZE"},
        {"SLURM_PROCID", "SLURM_NTASKS"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"PMI_RANK", "PMI_SIZE"},
        {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
    };
    for (auto &[rank, size] : launchers) {
        std::optional<int64_t> mine = environment_number(rank), all = environment_number(size);
        if (mine && all && *mine < *all) return static_cast<int32_t>(*mine);
    }
    return 0;
}

} // namespace pasta

#endif
