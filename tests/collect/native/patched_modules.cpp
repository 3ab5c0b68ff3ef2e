/* Modules that come and go while watching begins and ends, in two contexts, as callbacks tell of them. */
#include "patched_modules.h"

#include <array>
#include <cstdio>
#include <thread>

using namespace pasta;

namespace {

constexpr size_t MODULES = 64;
std::array<std::atomic<int>, MODULES + 1> patched{}, told{};
std::atomic<int> wrong{0}, entered{0};

size_t number_of(CUmodule module) { return reinterpret_cast<size_t>(module); }
CUmodule module(size_t number) { return reinterpret_cast<CUmodule>(number); }
CUcontext context(size_t number) { return reinterpret_cast<CUcontext>(number); }

/* Compute Sanitizer's calls are for one thread at a time; each is remembered. */
template <class Change> SanitizerResult alone(Change change) {
    if (++entered != 1) ++wrong;
    change();
    usleep(1);
    --entered;
    return SANITIZER_SUCCESS;
}

void stand_in(SanitizerLibrary &library) {
    library.add_patches = [](const char *, CUcontext) { return alone([] {}); };
    library.patch_instructions = [](Sanitizer_InstructionId, CUmodule module, const char *) {
        return alone([&] { told[number_of(module)] = 1; });
    };
    library.patch_module = [](CUmodule module) {
        return alone([&] { wrong += patched[number_of(module)]++ != 0 || !told[number_of(module)]; });
    };
    library.unpatch_module = [](CUmodule module) {
        return alone([&] {
            wrong += patched[number_of(module)]-- != 1;
            told[number_of(module)] = 0; /* which patches go where is forgotten */
        });
    };
}

int count() {
    int sum = 0;
    for (auto &each : patched) sum += each;
    return sum;
}

void watch(PatchedModules &modules, const char *what, size_t of, bool wanted) {
    bool done = modules.watch(context(of), wanted);
    std::printf("%s: %d %d\n", what, done, count());
}

/* One thread begins launches, two load modules; a launch that is told to be watched finds all that are loaded by then patched. */
void at_once(PatchedModules &modules) {
    std::array<std::atomic<bool>, MODULES + 1> loaded{};
    auto load = [&](size_t first) {
        for (size_t number = first; number <= MODULES; number += 2) {
            modules.loaded(context(1), module(number));
            loaded[number] = true;
        }
    };
    std::thread even(load, 4), odd(load, 5);
    for (int turn = 1; turn < 4000; ++turn) {
        std::array<bool, MODULES + 1> before{};
        for (size_t number = 4; number <= MODULES; ++number) before[number] = loaded[number];
        bool wanted = turn % 40;
        if (!modules.watch(context(1), wanted)) continue;
        for (size_t number = 4; number <= MODULES; ++number) wrong += before[number] && patched[number] != wanted;
    }
    even.join();
    odd.join();
}

} // namespace

int main() {
    MemoryOptions options;
    Sanitizer call;
    stand_in(call.library);
    PatchedModules modules(options, call, "patches");
    modules.loaded(context(1), module(1));
    std::printf("not watched: %d\n", count());
    watch(modules, "watched", 1, true);
    modules.loaded(context(1), module(2));
    watch(modules, "one more", 1, true);
    watch(modules, "no longer", 1, false);
    modules.begin_with(true);
    modules.loaded(context(2), module(3));
    std::printf("of a new context: %d\n", count());
    modules.unloads(context(1), module(2));
    watch(modules, "one gone", 1, true);
    modules.ends(context(2));
    at_once(modules);
    watch(modules, "at once", 1, true);
    std::printf("wrong: %d\n", wrong.load());
}
