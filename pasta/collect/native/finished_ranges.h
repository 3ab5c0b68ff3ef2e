/* NVTX ranges on their way from the program's threads to the thread that makes rows of them. */
#ifndef PASTA_FINISHED_RANGES_H
#define PASTA_FINISHED_RANGES_H

#include "nvtx_ranges.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <utility>

namespace pasta {

struct FinishedRange {
    int64_t tid, ts, dur;
    std::string name;
};

/* For any thread. Bounded, as a program that marks ranges may never use CUDA, and then nobody reads. */
class FinishedRanges {
  public:
    void begin() {
        std::lock_guard<std::mutex> guard(lock);
        ++open;
    }

    void end(const NvtxRange &range, int64_t now) {
        auto tid = static_cast<int64_t>(syscall(SYS_gettid));
        std::lock_guard<std::mutex> guard(lock);
        --open;
        if (finished.size() < MOST) finished.push_back({tid, range.began, now - range.began, range.name});
        else ++refused;
    }

    std::vector<FinishedRange> take() {
        std::lock_guard<std::mutex> guard(lock);
        return std::exchange(finished, {});
    }

    uint64_t take_refused() {
        std::lock_guard<std::mutex> guard(lock);
        return std::exchange(refused, 0);
    }

    uint64_t still_open() {
        std::lock_guard<std::mutex> guard(lock);
        return open;
    }

  private:
    static constexpr size_t MOST = 1 << 16;
    std::mutex lock;
    std::vector<FinishedRange> finished;
    uint64_t open = 0, refused = 0;
};

} // namespace pasta

#endif
