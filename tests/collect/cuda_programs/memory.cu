// Allocates memory of every kind, and lets pages of managed memory go to the device and back.
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

constexpr size_t MANAGED = 4 << 20;

__global__ void touch(char *bytes) { bytes[blockIdx.x * (size_t)blockDim.x + threadIdx.x] += 1; }

int main() {
    char *managed;
    void *device, *pinned, *pooled;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaMallocManaged(&managed, MANAGED);
    std::memset(managed, 1, MANAGED);
    touch<<<MANAGED / 256, 256, 0, stream>>>(managed);
    cudaStreamSynchronize(stream);
    long sum = 0;
    for (size_t at = 0; at < MANAGED; at += 4096) sum += managed[at];
    cudaMalloc(&device, 3 << 20);
    cudaHostAlloc(&pinned, 8192, 0);
    cudaMallocAsync(&pooled, 1 << 20, stream);
    cudaFreeAsync(pooled, stream);
    cudaStreamSynchronize(stream);
    cudaFreeHost(pinned);
    cudaFree(device);
    cudaFree(managed);
    std::printf("%ld %d\n", sum, cudaGetLastError());
}
