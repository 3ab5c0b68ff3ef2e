/* A timer for each thread of this process, which runs while the thread is on a CPU and interrupts it. */
#ifndef PASTA_THREAD_TIMERS_H
#define PASTA_THREAD_TIMERS_H

#include "pasta_channel.h"

#include <dirent.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <unordered_map>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace pasta {

/* For one thread, which has no timer itself. A process that was forked has none of its parent's
 * timers, and one that runs another program none of its own: the kernel ends them. */
class ThreadTimers {
  public:
    /* `mark`: what the handler finds in `si_value`. */
    ThreadTimers(int signal_number, int64_t every_ns, void *mark) : number(signal_number), period(every_ns), value(mark) {}
    ~ThreadTimers() {
        for (auto &[tid, timer] : timers) timer_delete(timer.id);
    }
    ThreadTimers(const ThreadTimers &) = delete;

    uint64_t refused = 0; /* threads that could not be given one */

    /* Give one to each new thread, and take away those of threads that are gone. That of a thread which
     * began after the first call runs from the thread's beginning: its first signal stands for
     * all that was missed (`si_overrun`). */
    void follow() {
        DIR *folder = opendir("/proc/self/task");
        if (!folder) return;
        ++round;
        while (dirent *entry = readdir(folder))
            if (auto tid = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10)); tid > 0 && tid != own) meet(tid);
        closedir(folder);
        std::erase_if(timers, [&](auto &each) { return each.second.round != round && (timer_delete(each.second.id), true); });
        std::erase_if(without, [&](auto &each) { return each.second != round; });
    }

  private:
    struct Timer {
        timer_t id;
        uint64_t round; /* when its thread was seen last */
    };
    const int number;
    const int64_t period;
    void *const value;
    const pid_t own = static_cast<pid_t>(syscall(SYS_gettid));
    std::unordered_map<pid_t, Timer> timers;
    std::unordered_map<pid_t, uint64_t> without; /* thread -> when it was seen last */
    uint64_t round = 0;
    std::minstd_rand chance{static_cast<uint32_t>(pasta_clock(CLOCK_MONOTONIC))};

    void meet(pid_t tid) {
        if (auto refusal = without.find(tid); refusal != without.end()) {
            refusal->second = round;
            return;
        }
        if (auto known = timers.find(tid); known != timers.end()) {
            known->second.round = round;
            if (has_time_left(known->second.id)) return;
            timer_delete(known->second.id);
            timers.erase(known);
        }
        start(tid);
    }

    /* False: its thread has ended, and what goes by the thread's number now is another. */
    static bool has_time_left(timer_t timer) {
        itimerspec left{};
        return timer_gettime(timer, &left) || left.it_value.tv_sec || left.it_value.tv_nsec;
    }

    void start(pid_t tid) {
        sigevent event{};
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = number;
        event.sigev_value.sival_ptr = value;
        event.sigev_notify_thread_id = tid;
        timer_t timer;
        if (timer_create(clock_of(tid), &event, &timer)) {
            bool has_ended = errno == EINVAL || errno == ESRCH;
            if (!has_ended && without.try_emplace(tid, round).second) ++refused;
            return;
        }
        timers[tid] = {timer, round};
        int64_t first = 1 + static_cast<int64_t>(chance()) % period; /* no beat with what the program does */
        itimerspec times{time_of(period), time_of(first)};
        timer_settime(timer, round == 1 ? 0 : TIMER_ABSTIME, &times, nullptr);
    }

    static timespec time_of(int64_t ns) { return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)}; }

    /* The kernel's name for the clock of a thread's time on CPUs. */
    static clockid_t clock_of(pid_t tid) {
        constexpr clockid_t OF_A_THREAD = 4, TIME_ON_CPU = 2;
        return static_cast<clockid_t>(~static_cast<uint32_t>(tid) << 3 | OF_A_THREAD | TIME_ON_CPU);
    }
};

} // namespace pasta

#endif
