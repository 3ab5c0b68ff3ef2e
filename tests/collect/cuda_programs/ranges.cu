// A launch in NVTX ranges, of a program that has used CUDA before.
#include <cstdio>
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

__global__ void nothing() {}

int main() {
    cudaFree(nullptr);
    nvtxRangePushA("outer");
    nvtxRangePushA("inner");
    nothing<<<1, 32>>>();
    nvtxRangePop();
    cudaDeviceSynchronize();
    nvtxRangePop();
    std::printf("%d\n", cudaGetLastError());
}
