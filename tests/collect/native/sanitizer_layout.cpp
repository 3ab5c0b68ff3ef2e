/* Where the library of Compute Sanitizer has the handle of a stream, and where its own headers say so. */
#include "sanitizer_library.h"

#include <cstddef>
#include <cstdio>

int main() {
    pasta::SanitizerLibrary library;
    Sanitizer_SubscriberHandle subscriber = nullptr;
    std::string failure = library.load();
    if (!failure.empty()) return std::puts(failure.c_str()), 1;
    library.subscribe(&subscriber, [](void *, Sanitizer_CallbackDomain, Sanitizer_CallbackId, const void *) {}, nullptr);
    library.ask(subscriber);
    const size_t words[] = {0, 1, 2, 3};
    auto asked = reinterpret_cast<size_t>(library.handle_of_stream(words));
    std::printf("%zu %zu\n", asked, offsetof(Sanitizer_ResourceStreamData, hStream) / sizeof(void *));
}
