/* Modules that come and go while watching begins and ends: of each, patches are set and removed in turn. */
#include "patched_modules.h"

#include <array>
#include <cstdio>
#include <thread>

using namespace pasta;

namespace {

constexpr size_t MODULES = 64;
std::array<std::atomic<int>, MODULES> patched{}, entered{};
std::atomic<int> wrong{0};

void change(CUmodule module, int by) {
    size_t index = reinterpret_cast<size_t>(module) - 1;
    if (++entered[index] != 1) ++wrong; /* two threads at one module */
    int now = patched[index] += by;
    if (now != 0 && now != 1) ++wrong; /* set twice, or removed twice */
    std::this_thread::yield();
    --entered[index];
}

void stand_in(SanitizerLibrary &library) {
    library.add_patches = [](const char *, CUcontext) { return SANITIZER_SUCCESS; };
    library.patch_instructions = [](Sanitizer_InstructionId, CUmodule, const char *) { return SANITIZER_SUCCESS; };
    library.patch_module = [](CUmodule module) { return change(module, 1), SANITIZER_SUCCESS; };
    library.unpatch_module = [](CUmodule module) { return change(module, -1), SANITIZER_SUCCESS; };
}

Sanitizer_ResourceModuleData module(size_t number) {
    Sanitizer_ResourceModuleData data{};
    data.module = reinterpret_cast<CUmodule>(number);
    return data;
}

int count() {
    int sum = 0;
    for (auto &each : patched) sum += each;
    return sum;
}

void watch(PatchedModules &modules, const char *what, bool wanted) {
    bool done = modules.watch(wanted);
    std::printf("%s: %d %d\n", what, done, count());
}

} // namespace

int main() {
    MemoryOptions options;
    Sanitizer call;
    stand_in(call.library);
    PatchedModules modules(options, call);
    modules.loaded(module(1), "patches");
    std::printf("not watched: %d\n", count());
    watch(modules, "watched", true);
    modules.loaded(module(2), "patches");
    watch(modules, "one more", true);
    watch(modules, "no longer", false);
    modules.unloads(module(2).module);
    watch(modules, "one gone", true);

    std::vector<std::thread> threads;
    for (int thread = 0; thread < 2; ++thread)
        threads.emplace_back([&] {
            for (int turn = 0; turn < 2000; ++turn) modules.watch(turn % 2);
        });
    threads.emplace_back([&] {
        for (size_t number = 3; number <= MODULES; ++number) modules.loaded(module(number), "patches");
    });
    for (auto &thread : threads) thread.join();
    watch(modules, "at once", true);
    std::printf("wrong: %d\n", wrong.load());
}
