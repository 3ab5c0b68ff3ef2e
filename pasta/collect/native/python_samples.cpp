/* Samples the Python stacks of its own process: `--with cpu:python`.
 *
 * A timer of each thread's time on a CPU sends it SIGURG, whose handler reads the thread's own stack. So a
 * sample costs the program some microseconds, nothing is stopped, and time that a thread spends waiting, for a
 * CPU too, is not counted. A thread beside makes rows of the samples, and finds new threads.
 * pasta/collect/target/sampling.py loads this, and looks first whether the stacks are read rightly. */

#include "python_frames.h"
#include "sample_log.h"
#include "sample_rows.h"
#include "settings.h"
#include "thread_timers.h"

#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <thread>
#include <unordered_set>

namespace pasta {
namespace {

constexpr auto EVERY = std::chrono::milliseconds(20);
/* In rounds: between two times that samples become rows, and between two of losses; a program that ends soon
 * may do so without a word, and is not kept waiting for the first. */
constexpr uint64_t BETWEEN_ROWS = 5, BETWEEN_LOSSES = 50, YOUNG = 50;
/* What does nothing unless it is handled: a program that takes our handler off must not be ended by a timer. */
constexpr int SIGNAL = SIGURG;

struct Python {
    void *(*state_of_thread)();
    void *(*current_state)(); /* that of the thread that has Python's lock, or this thread's if it has it */
    void *type_of_code;

    bool load() {
        bool current = find("PyThreadState_GetUnchecked", current_state) || find("_PyThreadState_UncheckedGet", current_state);
        return current && find("PyGILState_GetThisThreadState", state_of_thread) && find("PyCode_Type", type_of_code);
    }
    template <class Symbol> static bool find(const char *name, Symbol &symbol) {
        return (symbol = reinterpret_cast<Symbol>(dlsym(RTLD_DEFAULT, name)));
    }
};

Python python;
SampleLog log_of_samples;
std::atomic<bool> recording{false};
bool only_with_lock = false;
double period_ns = 0;

void sample(int, siginfo_t *info, void *) {
    bool of_our_timers = info->si_code == SI_TIMER && info->si_value.sival_ptr == &python;
    if (!of_our_timers || !recording.load(std::memory_order_acquire)) return;
    int error = errno;
    void *state = python.state_of_thread(); /* null: the thread runs no Python */
    if (!only_with_lock || (state && python.current_state() == state)) {
        double weight = period_ns * (1 + info->si_overrun);
        auto now = static_cast<int64_t>(pasta_clock(CLOCK_MONOTONIC));
        log_of_samples.add(recording, reinterpret_cast<uintptr_t>(state), syscall(SYS_gettid), now, weight);
    }
    errno = error;
}

bool handler_is_ours() {
    struct sigaction now;
    return !sigaction(SIGNAL, nullptr, &now) && now.sa_flags & SA_SIGINFO && now.sa_sigaction == &sample;
}

/* The thread beside the program, from `begin` to `end`. */
class Sampling {
  public:
    Sampling(const char *folder, int32_t rank, int64_t offset, void (*naming)()) : rows(folder, rank, offset), name_threads(naming) {}

    int error() const { return rows.error(); }

    void begin(const std::string &framework) {
        rows.add_process(framework);
        rows.add_thread(static_cast<int64_t>(syscall(SYS_gettid)), "MainThread");
        rows.write();
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
        thread = std::thread([this] { run(); });
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        pthread_setname_np(thread.native_handle(), "pasta-samples");
    }

    void end() {
        {
            std::lock_guard<std::mutex> guard(ending);
            ended = true;
        }
        wake.notify_one();
        thread.join();
    }

    void name(int64_t tid, const char *text) { rows.add_thread(tid, text); }

  private:
    SampleRows rows;
    void (*const name_threads)();
    std::unordered_set<int64_t> met;
    std::mutex ending;
    std::condition_variable wake;
    bool ended = false;
    uint64_t rounds = 0;
    std::thread thread;

    void run() {
        auto timers = std::make_unique<ThreadTimers>(SIGNAL, static_cast<int64_t>(period_ns), &python);
        std::unique_lock<std::mutex> guard(ending);
        while (!ended) {
            guard.unlock();
            if (timers && !handler_is_ours()) {
                timers.reset();
                rows.add_loss("the program took SIGURG for itself: not sampled from then on", 1);
            }
            if (timers) {
                timers->follow();
                rows.add_loss("threads that the system gave no timer: not sampled", std::exchange(timers->refused, 0));
            }
            if (++rounds < YOUNG || rounds % BETWEEN_ROWS == 0) drain();
            if (rounds % BETWEEN_LOSSES == 0) rows.write_losses();
            guard.lock();
            wake.wait_for(guard, EVERY, [this] { return ended; });
        }
        timers.reset();
        drain();
        rows.write_losses();
    }

    void drain() {
        bool is_new = false;
        LostSamples lost = log_of_samples.take([&](const char *bytes, size_t count) {
            rows.add(bytes, count, [&](int64_t tid) { is_new |= met.insert(tid).second; });
        });
        rows.add_loss("samples taken while another thread's was kept: left out", lost.busy);
        rows.add_loss("samples whose stack could not be read: left out", lost.unreadable);
        rows.add_loss("samples that came faster than they could be written: dropped", lost.full);
        rows.add_loss("samples of call stacks of more than 256 frames: the outermost frames are left out", lost.too_deep);
        rows.add_loss("samples of call stacks beyond the first 65536 different ones: without a stack", lost.too_many);
        rows.add_loss("samples of call stacks with places beyond the first 65536 different ones: without a stack", lost.too_many_places);
        if (is_new && !ended) name_threads();
        rows.write();
    }
};

/* Never freed but by `end`: a fork leaves the child a copy that it must not touch. */
Sampling *sampling = nullptr;

void child_begins() {
    recording = false;
    sampling = nullptr;
}

int install_handler() {
    struct sigaction before, ours{};
    if (handler_is_ours()) return 0;
    if (sigaction(SIGNAL, nullptr, &before)) return errno;
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return EBUSY;
    ours.sa_sigaction = &sample;
    sigfillset(&ours.sa_mask); /* a handler of the program's may leave by a long jump, and our log locked */
    ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    return sigaction(SIGNAL, &ours, nullptr) ? errno : 0;
}

} // namespace
} // namespace pasta

using namespace pasta;

/* Look for the Python of this process, whose version is 100 times the major number and the minor one.
 * 0; ENOSYS: its frames are not known. */
extern "C" int pasta_sampling_load(int version) {
    const PythonLayout *layout = python_layout(version);
    if (!layout || !python.load()) return ENOSYS;
    log_of_samples.frames.know(*layout, python.type_of_code);
    static const int failed = pthread_atfork(nullptr, nullptr, &child_begins);
    return failed;
}

/* Put the calling thread's stack into `text`, as `function\x1ffile\x1fline\n` innermost first;
 * return its size, or -1: it could not be read. To be asked before `begin`. */
extern "C" int pasta_sampling_here(char *text, int size) {
    PythonFrames &frames = log_of_samples.frames;
    void *state = python.state_of_thread();
    if (!state || !frames.walk(reinterpret_cast<uintptr_t>(state), false)) return -1;
    std::string told;
    for (size_t index = 0; index < frames.depth; ++index) {
        const PythonPlace &place = frames.places[index];
        for (uintptr_t each : {place.name, place.file}) {
            uintptr_t characters;
            uint8_t width;
            uint64_t count;
            if (!frames.text_at(each, characters, width, count)) return -1;
            std::string read(count * width, '\0');
            if (!frames.memory.copy_all(read.data(), characters, read.size())) return -1;
            told += utf8_of(read.data(), width, count) + '\x1f';
        }
        int32_t line;
        if (!frames.line_of(place, line)) return -1;
        told += std::to_string(line) + '\n';
    }
    if (told.size() > static_cast<size_t>(size)) return -1;
    memcpy(text, told.data(), told.size());
    return static_cast<int>(told.size());
}

/* Sample from here on, as the environment says; in a forked child, anew. `naming` is called on a thread of
 * ours, and calls `pasta_sampling_name` for each thread that has a name.
 * 0; EBUSY: the program uses SIGURG; EALREADY; ENOENT: there is no channel; or why it has no room. */
extern "C" int pasta_sampling_begin(const char *framework, void (*naming)()) {
    const char *folder = std::getenv("PASTA_CHANNEL"), *settings = std::getenv("PASTA_COLLECT");
    if (sampling) return EALREADY;
    std::optional<std::string> wanted = settings ? json_object(settings, "cpu") : std::nullopt;
    if (!folder || !wanted || !json_number(*wanted, "frequency")) return ENOENT;
    if (int failed = install_handler()) return failed;
    period_ns = 1e9 / static_cast<double>(json_number(*wanted, "frequency"));
    only_with_lock = json_flag(settings, "cpu", "gil");
    log_of_samples.begin_anew();
    auto made = std::make_unique<Sampling>(folder, environment_rank(), json_number(settings, "offset"), naming);
    if (made->error()) return made->error();
    sampling = made.release();
    recording = true;
    sampling->begin(framework);
    return 0;
}

extern "C" void pasta_sampling_name(int64_t tid, const char *name) {
    if (sampling) sampling->name(tid, name);
}

/* Sample no more, and hand over what is left. Python's lock must not be held. */
extern "C" void pasta_sampling_end() {
    recording = false;
    if (Sampling *ending = std::exchange(sampling, nullptr)) {
        ending->end();
        delete ending;
    }
}
