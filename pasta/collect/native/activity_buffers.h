/* Buffers that CUPTI fills on the program's threads, and that a thread of the collector empties. */
#ifndef PASTA_ACTIVITY_BUFFERS_H
#define PASTA_ACTIVITY_BUFFERS_H

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

namespace pasta {

/* For any thread. A buffer is given out zeroed, so that CUPTI need not do so on the program's
 * thread, and used again once it is empty; each is an allocation of its own, so that another client
 * that CUPTI hands it to can free it. */
class ActivityBuffers {
  public:
    /* A buffer is delivered once all its records are complete: while a thread launches faster than
     * the device runs, that is when it is full. So this bounds what a kill can lose. */
    static constexpr size_t BYTES = 256 << 10;

    struct Filled {
        uint8_t *buffer;
        size_t used;
    };

    /* A zeroed buffer; null where there is no memory. */
    uint8_t *take_empty() {
        {
            std::lock_guard<std::mutex> guard(lock);
            if (!empty.empty()) {
                uint8_t *buffer = empty.back();
                empty.pop_back();
                return buffer;
            }
        }
        return static_cast<uint8_t *>(std::calloc(1, BYTES));
    }

    void put_empty(uint8_t *buffer) {
        std::memset(buffer, 0, BYTES);
        std::lock_guard<std::mutex> guard(lock);
        empty.push_back(buffer);
    }

    void put_filled(Filled delivered, size_t records_dropped) {
        std::lock_guard<std::mutex> guard(lock);
        filled.push_back(delivered);
        dropped += records_dropped;
        wake.notify_one();
    }

    /* What was delivered, after waiting for it at most so long, or until `stop`; in order. */
    template <class Duration> std::vector<Filled> take_filled(Duration patience) {
        std::unique_lock<std::mutex> guard(lock);
        wake.wait_for(guard, patience, [this] { return !filled.empty() || stopped; });
        return std::exchange(filled, {});
    }

    /* Records that CUPTI had no room for, since the last call. */
    size_t take_dropped() {
        std::lock_guard<std::mutex> guard(lock);
        return std::exchange(dropped, 0);
    }

    void stop() {
        std::lock_guard<std::mutex> guard(lock);
        stopped = true;
        wake.notify_one();
    }

  private:
    std::mutex lock;
    std::condition_variable wake;
    std::vector<uint8_t *> empty;
    std::vector<Filled> filled;
    size_t dropped = 0;
    bool stopped = false;
};

} // namespace pasta

#endif
