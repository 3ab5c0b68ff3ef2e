/* Launches of one kernel by itself and in graphs, in turn; each kernel reads and writes 512 numbers once.
 *
 * The launches, from 0: alone; a graph of two kernels that was built node by node; alone; one of three that was
 * captured; then alone, both graphs, twice over; the graph of two after its update. Prints whether the sum is right. */
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call) check(call, #call)

constexpr unsigned THREADS = 128, BLOCKS = 4, ALL = THREADS * BLOCKS;

static void check(cudaError_t result, const char *call) {
    if (result == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(result));
    std::exit(1);
}

extern "C" __global__ void add_one(float *numbers) { numbers[blockIdx.x * THREADS + threadIdx.x] += 1; }

static cudaGraph_t built(float *numbers) {
    cudaGraph_t graph;
    cudaGraphNode_t first, second;
    void *arguments[] = {&numbers};
    cudaKernelNodeParams node{};
    node.func = reinterpret_cast<void *>(add_one);
    node.gridDim = dim3(BLOCKS);
    node.blockDim = dim3(THREADS);
    node.kernelParams = arguments;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddKernelNode(&first, graph, nullptr, 0, &node));
    CHECK(cudaGraphAddKernelNode(&second, graph, &first, 1, &node));
    return graph;
}

static cudaGraph_t captured(cudaStream_t stream, float *numbers, int kernels) {
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int kernel = 0; kernel < kernels; ++kernel) add_one<<<BLOCKS, THREADS, 0, stream>>>(numbers);
    CHECK(cudaStreamEndCapture(stream, &graph));
    return graph;
}

int main() {
    float *numbers;
    cudaStream_t stream;
    cudaGraphExec_t two, three;
    std::vector<float> told(ALL, 0);
    CHECK(cudaMalloc(&numbers, ALL * sizeof(float)));
    CHECK(cudaMemcpy(numbers, told.data(), ALL * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaStreamCreate(&stream));
    auto alone = [&] { add_one<<<BLOCKS, THREADS, 0, stream>>>(numbers); };
    auto launch = [&](cudaGraphExec_t graph) { CHECK(cudaGraphLaunch(graph, stream)); };

    alone();
    CHECK(cudaGraphInstantiate(&two, built(numbers), 0));
    launch(two);
    alone();
    CHECK(cudaGraphInstantiate(&three, captured(stream, numbers, 3), 0));
    launch(three);
    for (int turn = 0; turn < 2; ++turn) {
        alone();
        launch(two);
        launch(three);
    }
    CHECK(cudaStreamSynchronize(stream));
    cudaGraphExecUpdateResultInfo result{};
    CHECK(cudaGraphExecUpdate(two, captured(stream, numbers, 2), &result));
    launch(two);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(told.data(), numbers, ALL * sizeof(float), cudaMemcpyDeviceToHost));
    std::printf("right %d\n", told == std::vector<float>(ALL, 1 + 2 + 1 + 3 + 2 * (1 + 2 + 3) + 2));
}
