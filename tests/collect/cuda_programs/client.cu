// Another client of CUPTI: before the collector (`first`), or after it, from the start (`takes`) or
// between launches whose records the collector had (`takes-later`). Prints how many kernels it saw.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <cuda_runtime.h>
#include <cupti.h>

static int kernels;

static void give(uint8_t **buffer, size_t *size, size_t *most) {
    *size = 1 << 20, *most = 0;
    *buffer = static_cast<uint8_t *>(std::malloc(*size));
}

static void take(CUcontext, uint32_t, uint8_t *buffer, size_t, size_t used) {
    CUpti_Activity *record = nullptr;
    while (cuptiActivityGetNextRecord(buffer, used, &record) == CUPTI_SUCCESS)
        kernels += record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    std::free(buffer);
}

__global__ void nothing() {}

static void launch() {
    for (int launch = 0; launch < 5; ++launch) nothing<<<1, 32>>>();
    cudaDeviceSynchronize();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
}

int main(int, char **arguments) {
    std::string_view when = arguments[1];
    CUpti_SubscriberHandle subscriber;
    if (when == "takes-later") launch();
    if (when != "first") cudaFree(nullptr);
    CUptiResult subscribed = cuptiSubscribe(&subscriber, [](void *, CUpti_CallbackDomain, CUpti_CallbackId, const void *) {}, nullptr);
    cuptiActivityRegisterCallbacks(give, take);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    launch();
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    std::printf("%d %d\n", subscribed, kernels);
}
