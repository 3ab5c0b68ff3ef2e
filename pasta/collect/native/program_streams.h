/* The streams in which a program launches: each has a number, also where it got the handle of one that has gone. */
#ifndef PASTA_PROGRAM_STREAMS_H
#define PASTA_PROGRAM_STREAMS_H

#include "sanitizer_library.h"

#include <cstdint>
#include <map>
#include <utility>

namespace pasta {

class ProgramStreams {
  public:
    explicit ProgramStreams(const Driver &its_driver) : driver(its_driver) {}

    uint64_t number_of(CUcontext context, CUstream stream) {
        auto [known, is_new] = numbers.try_emplace({context, stream});
        if (is_new) known->second = ++last;
        return known->second;
    }

    void ends(CUcontext context, CUstream stream) { numbers.erase({context, stream}); }

    /* Whether all is done that was launched in a context. A stream that is being captured does nothing, and may not be
     * asked; where this thread may not ask of others during that either, it could end the capture of another thread. */
    bool are_idle(CUcontext context) const {
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        if (driver.exchange_capture_mode(&mode) != CUDA_SUCCESS) return false;
        bool idle = true;
        for (auto known = numbers.lower_bound({context, nullptr}); idle && known != numbers.end() && known->first.first == context; ++known)
            idle = is_captured(known->first.second) || driver.query_stream(known->first.second) != CUDA_ERROR_NOT_READY;
        driver.exchange_capture_mode(&mode);
        return idle;
    }

  private:
    const Driver &driver;
    std::map<std::pair<CUcontext, CUstream>, uint64_t> numbers;
    uint64_t last = 0;

    bool is_captured(CUstream stream) const {
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        return driver.is_capturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
    }
};

} // namespace pasta

#endif
