/* Modules that come and go while watching begins and ends, in two contexts, as callbacks tell of them. */
#include "patched_modules.h"

#include <array>
#include <cstdio>
#include <thread>

using namespace pasta;

namespace {

constexpr size_t MODULES = 64, COMING = 70, BRIEF = 79, SLOW = 80, ALL = 81;
std::array<std::atomic<int>, ALL> patched{}, told{}, gone{};
std::atomic<int> wrong{0}, entered{0};
std::atomic<bool> at_slow{false}, slow_may_go{false};

size_t number_of(CUmodule module) { return reinterpret_cast<size_t>(module); }
CUmodule module(size_t number) { return reinterpret_cast<CUmodule>(number); }
CUcontext context(size_t number) { return reinterpret_cast<CUcontext>(number); }

/* Compute Sanitizer's calls are for one thread at a time, on modules that are there; each is remembered. */
template <class Change> SanitizerResult alone(CUmodule of, Change change) {
    if (++entered != 1) ++wrong;
    wrong += gone[number_of(of)];
    change();
    usleep(1);
    wrong += gone[number_of(of)];
    --entered;
    return SANITIZER_SUCCESS;
}

void stand_in(SanitizerLibrary &library) {
    library.add_patches = [](const char *, CUcontext) { return alone(nullptr, [] {}); };
    library.patch_instructions = [](Sanitizer_InstructionId, CUmodule module, const char *) {
        return alone(module, [&] { told[number_of(module)] = 1; });
    };
    library.patch_module = [](CUmodule module) {
        return alone(module, [&] {
            wrong += patched[number_of(module)]++ != 0 || !told[number_of(module)];
            if (number_of(module) < BRIEF) return;
            at_slow = true;
            if (number_of(module) == BRIEF) usleep(5000);
            else
                while (!slow_may_go) usleep(50);
        });
    };
    library.unpatch_module = [](CUmodule module) {
        return alone(module, [&] {
            wrong += patched[number_of(module)]-- != 1;
            told[number_of(module)] = 0; /* which patches go where is forgotten */
        });
    };
}

bool idle() { return true; }

int count() {
    int sum = 0;
    for (auto &each : patched) sum += each;
    return sum;
}

void watch(PatchedModules &modules, const char *what, size_t of, bool wanted) {
    static const char *const states[] = {"none", "all", "some"};
    Patches state = modules.watch(context(of), wanted, idle);
    std::printf("%s: %s %d\n", what, states[static_cast<int>(state)], count());
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
        if (modules.watch(context(1), wanted, idle) == Patches::SOME) continue;
        for (size_t number = 4; number <= MODULES; ++number) wrong += before[number] && patched[number] != wanted;
    }
    even.join();
    odd.join();
}

/* Two threads load modules and unload them at once, while a third begins launches; a module that has gone is let alone. */
void come_and_go(PatchedModules &modules) {
    std::atomic<int> coming{2};
    auto come = [&](size_t number) {
        for (int turn = 0; turn < 300; ++turn) {
            patched[number] = told[number] = gone[number] = 0;
            modules.loaded(context(3), module(number));
            usleep(turn * 37 % 400);
            modules.unloads(context(3), module(number));
            gone[number] = 1;
        }
        --coming;
    };
    std::thread one(come, COMING), other(come, COMING + 1);
    for (int turn = 0; coming; ++turn) modules.watch(context(3), turn % 2, idle);
    one.join();
    other.join();
    std::printf("come and gone: %llu\n", static_cast<unsigned long long>(modules.torn()));
}

void begin_anew() {
    for (auto *each : {&patched, &told, &gone})
        for (auto &of_module : *each) of_module = 0;
    at_slow = slow_may_go = false;
}

/* A kernel runs for as long as the program does: launches are held up for a while in all, and patches come when it has ended. */
void busy(PatchedModules &modules) {
    uint32_t asked = 0, first = 0;
    auto is_idle = [&] { return ++asked, false; };
    modules.begin_with(false);
    modules.loaded(context(8), module(1));
    for (int turn = 0; turn < 150; ++turn) {
        asked = 0;
        wrong += modules.watch(context(8), true, is_idle) != Patches::SOME;
        if (turn == 0) first = asked;
    }
    std::printf("busy: asked %u times, then %u, %d\n", first, asked, count());
    watch(modules, "idle at last", 8, true);
}

/* A graph is made in a context whose kernel does not end: nothing is held up for long again, and patches never come. */
void graph_while_busy(PatchedModules &modules) {
    uint32_t asked = 0;
    auto is_idle = [&] { return ++asked, false; };
    modules.loaded(context(9), module(1));
    do {
        asked = 0;
        modules.watch(context(9), true, is_idle);
    } while (asked > 1);
    modules.stay(context(9), is_idle);
    wrong += asked > 2;
    watch(modules, "a graph while busy", 9, true);
    std::printf("without switching: %llu\n", static_cast<unsigned long long>(modules.without_switching()));
    modules.ends(context(9));
}

/* One that is made when the context is idle at last has patches. */
void graph_when_idle(PatchedModules &modules) {
    uint32_t asked = 0;
    modules.loaded(context(10), module(2));
    modules.stay(context(10), [&] { return ++asked > 100; });
    watch(modules, "a graph when idle", 10, false);
}

/* A context of which a graph was made: patches stay, also at modules to come. */
void stays(PatchedModules &modules) {
    modules.begin_with(false);
    modules.loaded(context(6), module(1));
    modules.stay(context(6), idle);
    watch(modules, "a graph", 6, false);
    modules.loaded(context(6), module(2));
    watch(modules, "and more", 6, false);
}

/* A module is unloaded while another thread is at its patches. */
void unloads_at_work(PatchedModules &modules) {
    modules.begin_with(true);
    std::thread patching([&] { modules.loaded(context(7), module(BRIEF)); });
    while (!at_slow) usleep(50);
    modules.unloads(context(7), module(BRIEF));
    gone[BRIEF] = 1;
    patching.join();
    std::printf("at work: %llu\n", static_cast<unsigned long long>(modules.torn()));
}

/* Patching waits for what the thread has that unloads, as for a lock of the driver: that one does not wait for ever. */
void unloads_what_it_holds_up(PatchedModules &modules) {
    std::thread patching([&] { modules.loaded(context(4), module(SLOW)); });
    while (!at_slow) usleep(50);
    modules.unloads(context(4), module(SLOW));
    slow_may_go = true;
    patching.join();
    std::printf("held up: %llu\n", static_cast<unsigned long long>(modules.torn()));
}

/* A graph is made while another thread is at patches: no patches come to its context from then on. */
void graph_while_patching(PatchedModules &modules) {
    std::thread patching([&] { modules.loaded(context(4), module(SLOW)); });
    while (!at_slow) usleep(50);
    modules.begin_with(false);
    modules.loaded(context(5), module(3));
    modules.stay(context(5), idle);
    slow_may_go = true;
    patching.join();
    watch(modules, "made meanwhile", 5, true);
    std::printf("without switching: %llu\n", static_cast<unsigned long long>(modules.without_switching()));
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
    come_and_go(modules);
    begin_anew();
    busy(modules);
    begin_anew();
    graph_while_busy(modules);
    graph_when_idle(modules);
    begin_anew();
    stays(modules);
    begin_anew();
    unloads_at_work(modules);
    begin_anew();
    unloads_what_it_holds_up(modules);
    begin_anew();
    graph_while_patching(modules);
    std::printf("wrong: %d\n", wrong.load());
}
