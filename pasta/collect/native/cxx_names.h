/* Names as C++ has them. */
#ifndef PASTA_CXX_NAMES_H
#define PASTA_CXX_NAMES_H

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace pasta {

/* What is not mangled stays as it is. */
inline std::string demangled(const char *name) {
    int status = 0;
    std::unique_ptr<char, void (*)(void *)> plain(abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
    return status == 0 ? plain.get() : name;
}

} // namespace pasta

#endif
