/* Which kernels copy tensors (TMA), by their code. */
#ifndef PASTA_TENSOR_KERNELS_H
#define PASTA_TENSOR_KERNELS_H

#include "tensor_spans.h"

#include <cuda.h>
#include <elf.h>

#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace pasta {

/* The code of a module, as an ELF file in memory: a section for each kernel and for each function that is called. */
class ModuleCode {
  public:
    ModuleCode(const char *image, size_t its_bytes) : bytes(image, image ? its_bytes : 0) {}

    /* Call `visit(name, is_kernel, code)` with each function; false: this is no such file. */
    template <class Visit> bool each_function(Visit visit) const {
        std::unordered_set<std::string_view> kernels;
        bool read = each_section([&](std::string_view name, const Elf64_Shdr &) {
            if (name.starts_with(ARGUMENTS)) kernels.insert(name.substr(ARGUMENTS.size()));
            return true;
        });
        return read && each_section([&](std::string_view name, const Elf64_Shdr &section) {
            if (section.sh_type != SHT_PROGBITS || !name.starts_with(CODE)) return true;
            name.remove_prefix(CODE.size());
            auto code = part(section.sh_offset, section.sh_size);
            if (code) visit(name, kernels.count(name) != 0, *code);
            return code.has_value();
        });
    }

  private:
    static constexpr std::string_view CODE = ".text.", ARGUMENTS = ".nv.constant0."; /* kernels have both */
    const std::string_view bytes;

    std::optional<std::string_view> part(uint64_t offset, uint64_t size) const {
        if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
        return bytes.substr(offset, size);
    }

    template <class Item> std::optional<Item> at(uint64_t offset) const {
        auto found = part(offset, sizeof(Item));
        if (!found) return std::nullopt;
        Item item;
        std::memcpy(&item, found->data(), sizeof(item));
        return item;
    }

    /* Call `visit(name, section)` with each section until it is false. Of very many sections the first one says how many there are, and
     * which has their names. */
    template <class Visit> bool each_section(Visit visit) const {
        const auto header = at<Elf64_Ehdr>(0);
        if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) || header->e_ident[EI_CLASS] != ELFCLASS64) return false;
        auto section_of = [&](uint64_t number) { return at<Elf64_Shdr>(header->e_shoff + number * header->e_shentsize); };
        const auto first = section_of(0);
        if (!first || header->e_shentsize < sizeof(Elf64_Shdr)) return false;
        const auto names = section_of(header->e_shstrndx == SHN_XINDEX ? first->sh_link : header->e_shstrndx);
        const auto text = names ? part(names->sh_offset, names->sh_size) : std::nullopt;
        if (!text) return false;
        const uint64_t count = header->e_shnum ? header->e_shnum : first->sh_size;
        for (uint64_t number = 0; number < count; ++number) {
            const auto section = section_of(number);
            if (!section || section->sh_name > text->size()) return false;
            std::string_view name = text->substr(section->sh_name);
            if (!visit(name.substr(0, name.find('\0')), *section)) return false;
        }
        return true;
    }
};

/* What tensor copies there are among instructions of 128 bits. The lowest nine bits of each say what it does: by
 * what nvcc 13.0 makes for compute capabilities 9.0, 10.0, 10.3 and 12.0, and three bits above them how. */
inline TensorCopies tensor_copies_of(std::string_view code) {
    constexpr uint64_t DOES = 0x1FF, LOADS = 0x1B4, STORES = 0x1B5, REDUCES = 0x1B6;
    TensorCopies found;
    for (size_t offset = 0; offset + 16 <= code.size(); offset += 16) {
        uint64_t word;
        std::memcpy(&word, code.data() + offset, sizeof(word));
        found.load |= (word & DOES) == LOADS;
        found.store |= (word & DOES) == STORES;
        found.reduce |= (word & DOES) == REDUCES;
    }
    return found;
}

/* For any thread. */
class TensorKernels {
  public:
    /* A module whose code cannot be read may do anything. */
    void loaded(CUmodule module, const char *image, size_t bytes) {
        Module found;
        bool read = ModuleCode(image, bytes).each_function([&](std::string_view name, bool is_kernel, std::string_view code) {
            TensorCopies copies = tensor_copies_of(code);
            if (is_kernel && copies.any()) found.kernels.emplace(name, copies);
            if (!is_kernel) found.called |= copies;
        });
        if (!read) found.called = {true, true, true};
        std::lock_guard<std::mutex> guard(lock);
        modules[module] = std::move(found);
    }

    void unloads(CUmodule module) {
        std::lock_guard<std::mutex> guard(lock);
        modules.erase(module);
    }

    /* A kernel may call any function of its module. */
    TensorCopies of(CUmodule module, const std::string &kernel) {
        std::lock_guard<std::mutex> guard(lock);
        auto known = modules.find(module);
        if (known == modules.end()) return {};
        TensorCopies copies = known->second.called;
        auto own = known->second.kernels.find(kernel);
        if (own != known->second.kernels.end()) copies |= own->second;
        return copies;
    }

  private:
    struct Module {
        std::unordered_map<std::string, TensorCopies> kernels;
        TensorCopies called; /* of functions that are no kernels */
    };
    std::mutex lock;
    std::unordered_map<CUmodule, Module> modules;
};

} // namespace pasta

#endif
