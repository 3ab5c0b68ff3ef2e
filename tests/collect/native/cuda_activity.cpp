/* Prints what the pure parts of the collector `cuda` answer, for test_cuda_activity.py. */
#include "../../../pasta/collect/native/activity_buffers.h"
#include "../../../pasta/collect/native/chosen_calls.h"
#include "../../../pasta/collect/native/cupti_clients.h"
#include "../../../pasta/collect/native/device_peaks.h"

#include <chrono>
#include <cstdio>
#include <iostream>
#include <thread>

using namespace pasta;

static void tell_call(const char *name) {
    std::printf("%s %d %d %d\n", std::string(without_version(name)).c_str(), is_chosen(name, Calls::THAT_START_WORK),
                is_chosen(name, Calls::THAT_TAKE_TIME), launches(name));
}

static void tell_peaks(char **numbers) {
    auto number = [&](int at) { return static_cast<uint32_t>(std::atoi(numbers[at])); };
    Flops peak = peak_flops(number(0), number(1), number(2), number(3));
    std::printf("%.0f %.0f %.0f %.0f %.0f %.0f\n", peak.fp64, peak.fp32, peak.tf32, peak.fp16, peak.bf16, peak.fp8);
}

/* A buffer comes back zeroed, deliveries come in order, and whoever waits is woken. */
static void tell_buffers() {
    ActivityBuffers buffers;
    uint8_t *first = buffers.take_empty(), *second = buffers.take_empty();
    first[ActivityBuffers::BYTES - 1] = 7;
    buffers.put_filled({first, 100}, 2);
    buffers.put_filled({second, 50}, 3);
    auto delivered = buffers.take_filled(std::chrono::seconds(0));
    std::printf("%zu %zu %zu dropped %zu\n", delivered.size(), delivered[0].used, delivered[1].used, buffers.take_dropped());
    buffers.put_empty(first);
    uint8_t *again = buffers.take_empty();
    std::printf("%d %d %zu\n", again == first, again[ActivityBuffers::BYTES - 1], buffers.take_dropped());
    std::thread producer([&] { buffers.put_filled({first, 1}, 0); });
    std::printf("%zu\n", buffers.take_filled(std::chrono::hours(1)).size());
    producer.join();
    buffers.stop();
    std::printf("%zu\n", buffers.take_filled(std::chrono::hours(1)).size());
}

int main(int count, char **arguments) {
    std::string_view what = count > 1 ? arguments[1] : "";
    if (what == "calls")
        for (int at = 2; at < count; ++at) tell_call(arguments[at]);
    else if (what == "peaks")
        tell_peaks(arguments + 2);
    else if (what == "clients")
        std::puts(clients_in(std::string(std::istreambuf_iterator<char>(std::cin), {})).c_str());
    else
        tell_buffers();
}
