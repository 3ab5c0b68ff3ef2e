/* Interns stacks of its own and writes them into the channel in CHANNEL, for test_native_stacks.py;
 * with a number, prints what one costs at that depth, in ns. */
#include "../../../pasta/collect/native/stack_rows.h"

#include <chrono>
#include <cstdio>
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

} // namespace probe

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
    else write(arguments[1]);
}
