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

/* The text of `key` in the object of `collector`; nothing where there is none. */
inline std::optional<std::string> json_text(const std::string &json, const std::string &collector,
                                            const std::string &key) {
    std::optional<std::string> object = json_object(json, collector);
    std::string mark = "\"" + key + "\": \"";
    size_t at = object ? object->find(mark) : std::string::npos;
    if (at == std::string::npos) return std::nullopt;
    at += mark.size();
    return object->substr(at, object->find('"', at) - at);
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
