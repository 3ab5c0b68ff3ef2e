// Two sources of one program share regions: this one opens what the other, in C, closes.
#include <pasta.h>

#include <cstdio>
#include <stdexcept>

extern "C" void close_in_c(void);

static void throws() {
    pasta::region here("throws");
    throw std::runtime_error("out of the region");
}

int main() {
    pasta::region whole("whole");
    try {
        throws();
    } catch (const std::exception &) {
        pasta::region caught("caught");
    }
    pasta_begin("from C++ to C");
    close_in_c();
    std::puts("done");
}
