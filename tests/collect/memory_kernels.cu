/* Kernels of known counts, one for each way to access memory, for GPUs of compute capability 9.0.
 *
 * Each is run by 4 blocks of 128 threads, and one access of each thread is 512 accesses. Prints the
 * names and addresses of its memory, then whether the results are right. */
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#define CHECK(call) check(call, #call)
#define KERNEL extern "C" __global__ void
#define INDEX (blockIdx.x * THREADS + threadIdx.x)

constexpr unsigned THREADS = 128, BLOCKS = 4, ALL = THREADS * BLOCKS;

static void check(cudaError_t result, const char *call) {
    if (result == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(result));
    std::exit(1);
}

__device__ uint32_t shared_address(const void *pointer) { return static_cast<uint32_t>(__cvta_generic_to_shared(pointer)); }

KERNEL copy_1(const uint8_t *from, uint8_t *to) { to[INDEX] = from[INDEX]; }
KERNEL copy_2(const uint16_t *from, uint16_t *to) { to[INDEX] = from[INDEX]; }
KERNEL copy_4(const float *from, float *to) { to[INDEX] = from[INDEX]; }
KERNEL copy_8(const float2 *from, float2 *to) { to[INDEX] = from[INDEX]; }
KERNEL copy_16(const float4 *from, float4 *to) { to[INDEX] = from[INDEX]; }
KERNEL fill(float *to, float what) { to[INDEX] = what; }
KERNEL in_graph(const float *from, float *to) { to[INDEX] = from[INDEX]; }
KERNEL of_lives(float *to) { to[INDEX] = 1; }
KERNEL of_threads(const float *from, float *to) { to[INDEX] = from[INDEX]; }
KERNEL predicated(const float *from, float *to, unsigned count) {
    if (INDEX < count) to[INDEX] = from[INDEX];
}
KERNEL exchange(unsigned *with, unsigned *to) { to[INDEX] = atomicExch(&with[INDEX], INDEX); }
KERNEL reduce(unsigned *to) { asm volatile("red.global.add.u32 [%0], 1;" ::"l"(__cvta_generic_to_global(to + INDEX)) : "memory"); }

KERNEL generic(const float *from, float *to) { /* half of the warps read global, half shared memory */
    __shared__ float near[THREADS];
    near[threadIdx.x] = 1;
    __syncthreads();
    const float *where = threadIdx.x < THREADS / 2 ? from + INDEX : near + threadIdx.x;
    float value;
    asm volatile("ld.f32 %0, [%1];" : "=f"(value) : "l"(where) : "memory");
    to[INDEX] = value;
}

KERNEL shared_memory(float *to) {
    __shared__ volatile float near[THREADS];
    near[threadIdx.x] = 1;
    __syncthreads();
    to[INDEX] = near[THREADS - 1 - threadIdx.x];
}

KERNEL local_memory(const int *from, int *to) {
    volatile int own[2];
    int value = from[INDEX];
    own[value & 1] = 5;
    to[INDEX] = own[value >> 1 & 1]; /* a place of its own, or the compiler knows what it reads */
}

KERNEL async_copy(const float4 *from, float4 *to) {
    __shared__ float4 near[THREADS];
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(near + threadIdx.x)), "l"(__cvta_generic_to_global(from + INDEX)) : "memory");
    asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    to[INDEX] = near[threadIdx.x];
}

__device__ void make_barrier(uint64_t *barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ void expect(uint64_t *barrier, unsigned bytes) {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

__device__ void wait(uint64_t *barrier) {
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred over; mbarrier.try_wait.parity.shared::cta.b64 over, [%1], 0; selp.u32 %0, 1, 0, over; }"
                     : "=r"(done) : "r"(shared_address(barrier)) : "memory");
}

KERNEL bulk_load(const float *from, float *to) {
    __shared__ alignas(128) float near[THREADS];
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) make_barrier(&barrier);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&barrier, 512);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];"
                     ::"r"(shared_address(near)), "l"(from + INDEX), "r"(shared_address(&barrier)) : "memory");
    }
    wait(&barrier);
    to[INDEX] = near[threadIdx.x];
}

__device__ void end_bulk() {
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
}

template <class Copy> __device__ void from_shared(Copy copy) {
    __shared__ alignas(128) unsigned near[THREADS];
    near[threadIdx.x] = 1;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        copy(shared_address(near));
        end_bulk();
    }
}

KERNEL bulk_store(unsigned *to) {
    from_shared([&](uint32_t near) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;" ::"l"(to + INDEX), "r"(near) : "memory");
    });
}

KERNEL bulk_reduce(unsigned *to) {
    from_shared([&](uint32_t near) {
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], 512;" ::"l"(to + INDEX), "r"(near) : "memory");
    });
}

KERNEL tensor_load(const __grid_constant__ CUtensorMap map, float *to) {
    __shared__ alignas(128) float near[THREADS];
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) make_barrier(&barrier);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&barrier, 512);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     ::"r"(shared_address(near)), "l"(&map), "r"(0), "r"(static_cast<int>(blockIdx.x) * 4), "r"(shared_address(&barrier)) : "memory");
    }
    wait(&barrier);
    to[INDEX] = near[threadIdx.x];
}

/* Each block copies each block's box twice, and one that hangs over the edge with half of its rows. */
KERNEL tensor_load_again(const __grid_constant__ CUtensorMap map, float *to) {
    constexpr int ROWS = 4;
    __shared__ alignas(128) float near[BLOCKS + 1][THREADS];
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) make_barrier(&barrier);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&barrier, 2 * sizeof(near));
        for (unsigned time = 0; time < 2; ++time)
            for (unsigned box = 0; box <= BLOCKS; ++box)
                asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                             ::"r"(shared_address(near[box])), "l"(&map), "r"(0), "r"(box == BLOCKS ? -ROWS / 2 : static_cast<int>(box) * ROWS),
                             "r"(shared_address(&barrier)) : "memory");
    }
    wait(&barrier);
    to[INDEX] = near[blockIdx.x][threadIdx.x];
}

KERNEL tensor_store(const __grid_constant__ CUtensorMap map) {
    from_shared([&](uint32_t near) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                     ::"l"(&map), "r"(0), "r"(static_cast<int>(blockIdx.x) * 4), "r"(near) : "memory");
    });
}

__device__ void meet_cluster() { asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory"); }

__device__ uint32_t at_neighbour(const void *mine) {
    uint32_t rank, there;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(mine)), "r"(rank ^ 1));
    return there;
}

KERNEL __cluster_dims__(2, 1, 1) remote_load(float *to) {
    __shared__ float near[THREADS];
    near[threadIdx.x] = 1;
    meet_cluster();
    float value;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(at_neighbour(near + threadIdx.x)) : "memory");
    to[INDEX] = value;
    meet_cluster();
}

KERNEL __cluster_dims__(2, 1, 1) async_store(unsigned *to) {
    __shared__ unsigned near[THREADS];
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) {
        make_barrier(&barrier);
        expect(&barrier, 512);
    }
    __syncthreads();
    meet_cluster();
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
                 ::"r"(at_neighbour(near + threadIdx.x)), "r"(1), "r"(at_neighbour(&barrier)) : "memory");
    wait(&barrier);
    to[INDEX] = *static_cast<volatile unsigned *>(near + threadIdx.x);
    meet_cluster();
}

KERNEL matrix_load(unsigned *to) {
    __shared__ alignas(16) unsigned near[THREADS];
    near[threadIdx.x] = 1;
    __syncthreads();
    unsigned part[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(part[0]), "=r"(part[1]), "=r"(part[2]), "=r"(part[3])
                 : "r"(shared_address(near) + threadIdx.x % 32 * 16) : "memory");
    to[INDEX] = part[0] + part[1] + part[2] + part[3];
}

KERNEL prefetch(const float *from, float *to) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from + INDEX));
    to[INDEX] = 1;
}

KERNEL texture(cudaTextureObject_t from, float *to) { to[INDEX] = tex1Dfetch<float>(from, INDEX); }

__constant__ float constants[THREADS];
KERNEL constant(float *to) { to[INDEX] = constants[blockIdx.x]; }

KERNEL waits_for_host(volatile int *flag, float *to) {
    if (threadIdx.x == 0)
        while (!*flag) __nanosleep(1000);
    __syncthreads();
    to[INDEX] = 1;
}

template <class Kernel, class... Arguments> static void run(Kernel kernel, Arguments... arguments) {
    kernel<<<BLOCKS, THREADS>>>(arguments...);
    CHECK(cudaGetLastError());
}

static void *named(const char *name, void *memory) {
    std::printf("%s %llu\n", name, static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(memory)));
    return memory;
}

template <class Item> static Item *device(const char *name) {
    void *memory = nullptr;
    CHECK(cudaMalloc(&memory, ALL * 16));
    CHECK(cudaMemset(memory, 0, ALL * 16));
    return static_cast<Item *>(named(name, memory));
}

static CUtensorMap tensor_map(void *memory) {
    void *found = nullptr;
    cudaDriverEntryPointQueryResult result;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result));
    CUtensorMap map;
    const cuuint64_t sizes[] = {32, ALL / 32}, strides[] = {128};
    const cuuint32_t box[] = {32, 4}, steps[] = {1, 1};
    auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
    if (!found || encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, memory, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                         CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS) {
        std::fprintf(stderr, "no tensor map\n");
        std::exit(1);
    }
    return map;
}

template <class Item> static Item *as(void *memory) { return static_cast<Item *>(memory); }

static void kinds(void *a, void *c) {
    run(copy_1, as<uint8_t>(a), as<uint8_t>(c));
    run(copy_2, as<uint16_t>(a), as<uint16_t>(c));
    run(copy_4, as<float>(a), as<float>(c));
    run(copy_8, as<float2>(a), as<float2>(c));
    run(copy_16, as<float4>(a), as<float4>(c));
    run(predicated, as<float>(a), as<float>(c), 300u);
    run(exchange, as<unsigned>(a), as<unsigned>(c));
    run(reduce, as<unsigned>(c));
    run(generic, as<float>(a), as<float>(c));
    run(shared_memory, as<float>(c));
    run(local_memory, as<int>(a), as<int>(c));
    run(async_copy, as<float4>(a), as<float4>(c));
    run(bulk_load, as<float>(a), as<float>(c));
    run(bulk_store, as<unsigned>(c));
    run(bulk_reduce, as<unsigned>(c));
    run(tensor_load, tensor_map(a), as<float>(c));
    run(tensor_load_again, tensor_map(a), as<float>(c));
    run(tensor_store, tensor_map(c));
    run(remote_load, as<float>(c));
    run(async_store, as<unsigned>(c));
    run(matrix_load, as<unsigned>(c));
    run(prefetch, as<float>(a), as<float>(c));
    run(constant, as<float>(c));
    cudaTextureObject_t object = 0;
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear = {a, cudaCreateChannelDesc<float>(), ALL * 16};
    cudaTextureDesc how{};
    CHECK(cudaCreateTextureObject(&object, &resource, &how, nullptr));
    run(texture, object, as<float>(c));
    CHECK(cudaDeviceSynchronize());
}

static void spaces(float *c) {
    void *managed, *pinned, *pool;
    CHECK(cudaMallocManaged(&managed, ALL * 16));
    CHECK(cudaHostAlloc(&pinned, ALL * 16, cudaHostAllocMapped));
    CHECK(cudaMallocAsync(&pool, ALL * 16, nullptr));
    for (void *memory : {named("managed", managed), named("pinned", pinned), named("pool", pool)}) run(fill, as<float>(memory), 1.f);
    CHECK(cudaFreeAsync(pool, nullptr));
    auto *flag = as<volatile int>(pinned);
    CHECK(cudaDeviceSynchronize());
    *flag = 0;
    cudaStream_t other;
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    waits_for_host<<<BLOCKS, THREADS, 0, other>>>(flag, c);
    for (int launch = 0; launch < 300; ++launch) copy_4<<<1, THREADS>>>(c, c);
    CHECK(cudaStreamSynchronize(nullptr)); /* all others end before it does */
    *flag = 1;
    CHECK(cudaDeviceSynchronize());
}

static void reused_address() {
    for (int life = 0; life < 3; ++life) {
        float *memory = device<float>("reused");
        run(fill, memory, 2.f);
        CHECK(cudaFree(memory));
    }
}

static cudaGraph_t captured(cudaStream_t stream, const float *from, float *to) {
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int kernel = 0; kernel < 3; ++kernel) in_graph<<<BLOCKS, THREADS, 0, stream>>>(from, to);
    CHECK(cudaStreamEndCapture(stream, &graph));
    return graph;
}

static void graphs(float *a, float *c, float *d) {
    cudaStream_t stream;
    cudaGraphExec_t program;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaGraphInstantiate(&program, captured(stream, a, c), 0));
    for (int replay = 0; replay < 2; ++replay) CHECK(cudaGraphLaunch(program, stream));
    cudaGraphExecUpdateResultInfo result{};
    CHECK(cudaGraphExecUpdate(program, captured(stream, a, d), &result));
    CHECK(cudaGraphLaunch(program, stream));
    CHECK(cudaStreamSynchronize(stream));
}

/* Streams that follow each other, mostly under one handle. */
static void lives(float *to) {
    for (int life = 0; life < 3; ++life) {
        cudaStream_t stream;
        CHECK(cudaStreamCreate(&stream));
        for (int launch = 0; launch < 2; ++launch) of_lives<<<BLOCKS, THREADS, 0, stream>>>(to);
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaStreamDestroy(stream));
    }
}

static void threads() {
    std::vector<std::thread> all;
    for (int thread = 0; thread < 4; ++thread)
        all.emplace_back([] {
            cudaStream_t stream;
            float *memory;
            CHECK(cudaStreamCreate(&stream));
            CHECK(cudaMalloc(&memory, ALL * 32)); /* a size of its own */
            for (int launch = 0; launch < 50; ++launch) of_threads<<<BLOCKS, THREADS, 0, stream>>>(memory, memory + ALL);
            CHECK(cudaStreamSynchronize(stream));
            CHECK(cudaFree(memory));
            CHECK(cudaStreamDestroy(stream));
        });
    for (std::thread &each : all) each.join();
}

int main() {
    auto *a = device<float>("a"), *c = device<float>("c"), *d = device<float>("d");
    kinds(a, c);
    spaces(c);
    reused_address();
    std::vector<float> values(ALL);
    for (unsigned index = 0; index < ALL; ++index) values[index] = static_cast<float>(index);
    CHECK(cudaMemcpy(a, values.data(), ALL * 4, cudaMemcpyHostToDevice));
    graphs(a, c, d);
    lives(c);
    threads();
    std::vector<float> told(ALL);
    CHECK(cudaMemcpy(told.data(), d, ALL * 4, cudaMemcpyDeviceToHost));
    std::printf("right %d\n", told == values);
}
