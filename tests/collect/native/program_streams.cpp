/* Streams that come, go and come again under one handle, and what of them still runs. */
#include "program_streams.h"

#include <cstdio>
#include <set>

using namespace pasta;

namespace {

std::set<CUstream> running, captured, asked;
CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
bool relaxed = true;

CUstream stream(size_t number) { return reinterpret_cast<CUstream>(number); }
CUcontext context(size_t number) { return reinterpret_cast<CUcontext>(number); }

} // namespace

int main() {
    Driver driver;
    driver.is_capturing = [](CUstream stream, CUstreamCaptureStatus *status) {
        *status = captured.count(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
        return CUDA_SUCCESS;
    };
    driver.exchange_capture_mode = [](CUstreamCaptureMode *wanted) {
        std::swap(*wanted, mode);
        return CUDA_SUCCESS;
    };
    driver.query_stream = [](CUstream stream) {
        asked.insert(stream);
        relaxed &= mode == CU_STREAM_CAPTURE_MODE_RELAXED;
        return running.count(stream) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
    };
    ProgramStreams streams(driver);
    auto tell = [&](size_t of, size_t handle) {
        std::printf("%llu\n", static_cast<unsigned long long>(streams.number_of(context(of), stream(handle))));
    };
    tell(1, 0);
    tell(1, 7);
    tell(2, 0);
    tell(1, 7);
    streams.ends(context(1), stream(7));
    tell(1, 7);
    tell(1, 8);
    running = {stream(7)};
    captured = {stream(8)};
    bool busy = streams.are_idle(context(1)), other = streams.are_idle(context(2));
    running = {stream(8)};
    std::printf("idle %d %d %d, of no stream %d\n", busy, other, streams.are_idle(context(1)), streams.are_idle(context(3)));
    std::printf("asked while captured: %zu, relaxed %d, as before %d\n", asked.count(stream(8)), relaxed, mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}
