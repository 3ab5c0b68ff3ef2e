/* Launches a kernel from two places, twice each. */
#include <cstdio>

__global__ void add(float *values) { values[threadIdx.x] += 1; }

namespace places {

__attribute__((noinline)) void launch(float *values) { add<<<1, 32>>>(values); }

struct First {
    __attribute__((noinline)) void run(float *values) { launch(values); }
};

__attribute__((noinline)) void second(float *values) { launch(values); }

} // namespace places

int main() {
    float *values = nullptr;
    if (cudaMalloc(&values, 32 * sizeof(float)) != cudaSuccess) return 1;
    places::First first;
    for (int time = 0; time < 2; ++time) {
        first.run(values);
        places::second(values);
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
