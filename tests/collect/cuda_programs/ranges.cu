// A launch in NVTX ranges that begin before CUDA is used.
#include <cstdio>
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

__global__ void nothing() {}

int main() {
    nvtxRangePushA("outer");
    nvtxRangePushA("inner");
    nothing<<<1, 32>>>();
    nvtxRangePop();
    cudaDeviceSynchronize();
    nvtxRangePop();
    std::printf("%d\n", cudaGetLastError());
}
