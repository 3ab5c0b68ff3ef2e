/* What the functions at addresses of this process are called. For one thread at a time. */
#ifndef PASTA_CODE_NAMES_H
#define PASTA_CODE_NAMES_H

#include "cxx_names.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

namespace pasta {

/* The functions in the file of a program or library: all where it is not stripped, else those that
 * it exports. A file that cannot be read, or makes no sense, has none. */
class FileFunctions {
  public:
    explicit FileFunctions(const std::string &path) {
        int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (file < 0) return;
        struct stat about;
        if (!fstat(file, &about) && about.st_size > 0) {
            void *mapped = mmap(nullptr, static_cast<size_t>(about.st_size), PROT_READ, MAP_PRIVATE, file, 0);
            if (mapped != MAP_FAILED) bytes = static_cast<const char *>(mapped), size = static_cast<size_t>(about.st_size);
        }
        close(file);
        if (!read(SHT_SYMTAB)) read(SHT_DYNSYM);
        std::sort(functions.begin(), functions.end(), [](const Function &one, const Function &other) { return one.begin < other.begin; });
    }
    ~FileFunctions() {
        if (bytes) munmap(const_cast<char *>(bytes), size);
    }
    FileFunctions(const FileFunctions &) = delete;

    /* The symbol of the function at an address, as the file counts addresses; null: unknown. */
    const char *at(uint64_t address) const {
        auto after = std::upper_bound(functions.begin(), functions.end(), address, [](uint64_t value, const Function &each) { return value < each.begin; });
        if (after == functions.begin()) return nullptr;
        const Function &function = *std::prev(after);
        return address < function.begin + function.size ? function.name : nullptr;
    }

  private:
    struct Function {
        uint64_t begin, size;
        const char *name;
    };
    const char *bytes = nullptr;
    size_t size = 0;
    std::vector<Function> functions;

    /* Part of the file; null: it has no such part. */
    template <class Part> const Part *part(uint64_t from, uint64_t count = 1) const {
        bool inside = from <= size && count <= (size - from) / sizeof(Part);
        return inside ? reinterpret_cast<const Part *>(bytes + from) : nullptr;
    }

    /* Read the table of symbols of a type; tell whether there is one. */
    bool read(uint32_t type) {
        auto *head = part<ElfW(Ehdr)>(0);
        if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64) return false;
        auto *sections = part<ElfW(Shdr)>(head->e_shoff, head->e_shnum);
        for (uint64_t at = 0; sections && at < head->e_shnum; ++at)
            if (sections[at].sh_type == type && sections[at].sh_link < head->e_shnum) return read(sections[at], sections[sections[at].sh_link]);
        return false;
    }

    bool read(const ElfW(Shdr) &table, const ElfW(Shdr) &names) {
        uint64_t count = table.sh_size / sizeof(ElfW(Sym));
        auto *symbols = part<ElfW(Sym)>(table.sh_offset, count);
        auto *texts = part<char>(names.sh_offset, names.sh_size);
        if (!symbols || !texts || !names.sh_size || texts[names.sh_size - 1]) return false;
        for (uint64_t at = 0; at < count; ++at) {
            const ElfW(Sym) &symbol = symbols[at];
            bool is_function = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC || ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC;
            if (is_function && symbol.st_shndx != SHN_UNDEF && symbol.st_size && symbol.st_name < names.sh_size)
                functions.push_back({symbol.st_value, symbol.st_size, texts + symbol.st_name});
        }
        return true;
    }
};

/* A function, and the file that it is in, without its folder. */
struct CodeName {
    std::string function, library;
};

class CodeNames {
  public:
    /* A function without a name is told by its place, as `library.so+0x1234`; empty: there is no code. */
    const CodeName &of(uintptr_t address) {
        auto [known, fresh] = names.try_emplace(address);
        if (fresh) known->second = found(address);
        return known->second;
    }

  private:
    struct Code {
        uintptr_t end, base;
        std::string path;
    };
    std::map<uintptr_t, CodeName> names;
    std::map<uintptr_t, Code> code; /* by where it begins */
    std::map<std::string, FileFunctions> files;

    CodeName found(uintptr_t address) {
        const Code *place = place_of(address);
        if (!place) dl_iterate_phdr(&CodeNames::learn, this), place = place_of(address);
        if (!place) return {};
        std::string library = place->path.substr(place->path.rfind('/') + 1);
        const char *symbol = files.try_emplace(place->path, place->path).first->second.at(address - place->base);
        if (symbol) return {demangled(symbol), library};
        char offset[24];
        std::snprintf(offset, sizeof(offset), "+0x%llx", static_cast<unsigned long long>(address - place->base));
        return {library + offset, library};
    }

    const Code *place_of(uintptr_t address) const {
        auto after = code.upper_bound(address);
        if (after == code.begin()) return nullptr;
        const Code &place = std::prev(after)->second;
        return address < place.end ? &place : nullptr;
    }

    static int learn(dl_phdr_info *library, size_t, void *names) {
        auto &known = static_cast<CodeNames *>(names)->code;
        for (int at = 0; at < library->dlpi_phnum; ++at) {
            const ElfW(Phdr) &segment = library->dlpi_phdr[at];
            if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
            uintptr_t begin = library->dlpi_addr + segment.p_vaddr;
            known[begin] = {begin + segment.p_memsz, library->dlpi_addr, *library->dlpi_name ? library->dlpi_name : program()};
        }
        return 0;
    }

    static std::string program() {
        char path[4096];
        ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path));
        return bytes > 0 ? std::string(path, static_cast<size_t>(bytes)) : "program";
    }
};

} // namespace pasta

#endif
