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

    /* Whether all is done that was launched in a context. A stream that is being captured does nothing, and may not be asked. */
    bool are_idle(CUcontext context) const {
        for (auto known = numbers.lower_bound({context, nullptr}); known != numbers.end() && known->first.first == context; ++known) {
            CUstream stream = known->first.second;
            CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
            bool captured = driver.is_capturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
            if (!captured && driver.query_stream(stream) == CUDA_ERROR_NOT_READY) return false;
        }
        return true;
    }

  private:
    const Driver &driver;
    std::map<std::pair<CUcontext, CUstream>, uint64_t> numbers;
    uint64_t last = 0;
};

} // namespace pasta

#endif
