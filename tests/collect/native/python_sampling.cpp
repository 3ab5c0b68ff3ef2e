/* Memory that no pointer can lead to, a log that is full, and threads that end: before they have a timer, or to lend another their number. */
#include "python_frames.h"
#include "sample_log.h"
#include "thread_timers.h"

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

using namespace pasta;

namespace {

int asked = 0;
bool have_ended = false; /* the threads that the timers are of */
std::vector<timer_t> deleted;

} // namespace

/* In the system's place: of two threads the one that is asked for last has ended. */
extern "C" int timer_create(clockid_t, sigevent *, timer_t *timer) {
    if (++asked == 2) {
        errno = EINVAL;
        return -1;
    }
    *timer = reinterpret_cast<timer_t>(7);
    return 0;
}
extern "C" int timer_settime(timer_t, int, const itimerspec *, itimerspec *) { return 0; }
extern "C" int timer_gettime(timer_t, itimerspec *left) {
    left->it_value.tv_nsec = !have_ended;
    return 0;
}
extern "C" int timer_delete(timer_t timer) {
    deleted.push_back(timer);
    return 0;
}

int main() {
    static OwnMemory memory;
    uint64_t known = 42, read = 0;
    char frame[72];
    memory.forget();
    bool found = memory.get(read, reinterpret_cast<uintptr_t>(&known));
    bool nowhere = memory.copy(frame, UINTPTR_MAX - 15, sizeof(frame)) || memory.copy(frame, UINTPTR_MAX, sizeof(frame));
    std::printf("found %d %d, nowhere %d\n", found, static_cast<int>(read), nowhere);

    static SampleLog samples;
    std::atomic<bool> wanted{true};
    for (size_t index = 0; index < SampleLog::BYTES / 32; ++index) samples.add(wanted, 0, 1, 2, 3);
    size_t whole = 0, rest = 0;
    LostSamples lost = samples.take([&](const char *, size_t bytes) {
        whole = bytes / (sizeof(Entry) + sizeof(SampleEntry));
        rest = bytes % (sizeof(Entry) + sizeof(SampleEntry));
    });
    std::printf("of a full log %zu and %zu bytes, lost %d\n", whole, rest, static_cast<int>(lost.full));

    std::atomic<bool> done{false};
    std::thread beside([&] { while (!done) std::this_thread::yield(); });
    std::thread([&] {
        ThreadTimers timers(SIGURG, 10'000'000, nullptr);
        auto follow = [&](const char *when) {
            timers.follow();
            std::printf("%s: asked %d, deleted %zu, refused %d\n", when, asked, deleted.size(), static_cast<int>(timers.refused));
        };
        follow("one ended");
        follow("it is another");
        follow("nothing new");
        have_ended = true;
        follow("both are others");
    }).join();
    done = true;
    beside.join();
    std::printf("deleted %zu\n", deleted.size());
}
