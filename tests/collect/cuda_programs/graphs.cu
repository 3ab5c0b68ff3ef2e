// Captures three kernels, replays the graph four times, updates it, replays it twice; prints a sum.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void add(float *to, float what) { to[blockIdx.x * blockDim.x + threadIdx.x] += what; }
__global__ void scale(float *to, float by) { to[blockIdx.x * blockDim.x + threadIdx.x] *= by; }

static cudaGraph_t capture(cudaStream_t stream, float *data, float what) {
    cudaGraph_t graph;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    add<<<4, 256, 0, stream>>>(data, what);
    scale<<<4, 256, 0, stream>>>(data, 1);
    add<<<4, 256, 0, stream>>>(data, what);
    cudaStreamEndCapture(stream, &graph);
    return graph;
}

int main() {
    float *data, host[1024];
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaMalloc(&data, sizeof(host));
    cudaMemset(data, 0, sizeof(host));
    cudaGraph_t graph = capture(stream, data, 1), other = capture(stream, data, 10);
    cudaGraphExec_t program;
    cudaGraphInstantiate(&program, graph, 0);
    for (int replay = 0; replay < 4; ++replay) cudaGraphLaunch(program, stream);
    cudaGraphExecUpdateResultInfo result{};
    cudaError_t updated = cudaGraphExecUpdate(program, other, &result);
    for (int replay = 0; replay < 2; ++replay) cudaGraphLaunch(program, stream);
    add<<<4, 256, 0, stream>>>(data, 100);
    cudaStreamSynchronize(stream);
    cudaMemcpy(host, data, sizeof(host), cudaMemcpyDeviceToHost);
    std::printf("%g %g %d %d\n", host[0], host[1023], updated, cudaGetLastError());
}
