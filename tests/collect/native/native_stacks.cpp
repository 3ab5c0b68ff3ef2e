/* Interns stacks of its own and writes them into the channel in CHANNEL, for test_native_stacks.py;
 * with `wander`, compares stacks on random ways with what a walk of every frame finds; with a number,
 * prints what one costs at that depth, in ns. */
#include "../../../pasta/collect/native/stack_rows.h"

#include <chrono>
#include <alloca.h>

#include <cstdio>
#include <map>
#include <random>
#include <set>
#include <thread>

using namespace pasta;

static NativeStacks &stacks = *new NativeStacks;

namespace probe {

__attribute__((noinline)) static uint64_t inner(int) {
    uint64_t id = stacks.here();
    asm volatile("");
    return id;
}

struct Model {
    template <class Number> __attribute__((noinline)) uint64_t forward(Number number) {
        uint64_t id = inner(static_cast<int>(number));
        asm volatile("");
        return id;
    }
};

__attribute__((noinline)) uint64_t descend(int levels) {
    uint64_t id = levels ? descend(levels - 1) : stacks.here();
    asm volatile("");
    return id;
}

struct Wanderer {
    std::mt19937 random{1};
    std::map<uint64_t, std::vector<uintptr_t>> seen;
    std::set<std::vector<uintptr_t>> different;
    uint64_t checked = 0, wrong = 0;

    static _Unwind_Reason_Code step(_Unwind_Context *context, void *to) {
        static_cast<std::vector<uintptr_t> *>(to)->push_back(_Unwind_GetIP(context));
        return _URC_NO_REASON;
    }

    __attribute__((noinline)) void check() {
        std::vector<uintptr_t> every_frame;
        uint64_t id = stacks.here();
        _Unwind_Backtrace(&step, &every_frame);
        every_frame.erase(every_frame.begin());
        auto [known, fresh] = seen.try_emplace(id, every_frame);
        wrong += known->second != every_frame || fresh != different.insert(every_frame).second;
        ++checked;
    }

    __attribute__((noinline)) void left(int levels) {
        go(levels);
        go(levels);
    }

    __attribute__((noinline)) void right(int levels) {
        auto *room = static_cast<volatile char *>(alloca(1 + random() % 4 * 64));
        room[0] = static_cast<char>(levels);
        go(levels);
    }

    __attribute__((noinline)) void go(int levels) {
        if (levels == 0) return check();
        if (random() % 8 == 0) check();
        if (random() % 2) left(levels - 1);
        else right(levels - 1);
        if (random() % 16 == 0) right(levels - 1);
    }
};

} // namespace probe

static void wander() {
    probe::Wanderer wanderer;
    for (int way = 0; way < 400; ++way) wanderer.go(static_cast<int>(wanderer.random() % 10));
    std::printf("%llu %llu %zu\n", static_cast<unsigned long long>(wanderer.wrong), static_cast<unsigned long long>(wanderer.checked), wanderer.seen.size());
}

static void write(const char *folder) {
    Ring ring(folder, 0);
    StackRows rows(stacks);
    probe::Model model;
    uint64_t same[2], other = 0, deep = probe::descend(400), of_thread = 0;
    for (uint64_t &id : same) id = model.forward(1.5);
    other = model.forward(2);
    std::thread([&] { of_thread = probe::descend(0); }).join();
    rows.add(ring, [](const char *reason, uint64_t count) { std::printf("%llu %s\n", static_cast<unsigned long long>(count), reason); });
    rows.write(ring);
    for (uint64_t id : {same[0], same[1], other, deep, of_thread}) std::printf("%llu\n", static_cast<unsigned long long>(id - NativeStacks::FIRST));
}

static void measure(int levels) {
    auto began = std::chrono::steady_clock::now();
    constexpr int TIMES = 20000;
    for (int time = 0; time < TIMES; ++time) probe::descend(levels);
    std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - began;
    std::printf("%.0f\n", took.count() / TIMES);
}

int main(int count, char **arguments) {
    if (count == 3) measure(std::atoi(arguments[2]));
    else if (std::string_view(arguments[1]) == "wander") wander();
    else write(arguments[1]);
}
