// Managed memory of which kernels use pages in known patterns, each in a buffer of its own; all of it fits.
#include <cstdio>
#include <cstdlib>
#include <cstring>

constexpr size_t PAGE = 65536;

static void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "managed_pages: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

struct Pages {
  unsigned char* buffer;
  size_t count;
};

// A block a page, and a read of one word of it by each thread, all of which lie in the page.
__device__ void read(Pages pages, size_t page, int* sum) {
  const int* words = reinterpret_cast<const int*>(pages.buffer + page * PAGE);
  int own = 0;
  for (size_t word = threadIdx.x; word < PAGE / sizeof(int); word += blockDim.x) own += words[word];
  if (own == -1) *sum = own;
}

__global__ void all_pages(Pages pages, int* sum) { read(pages, blockIdx.x, sum); }
__global__ void all_pages_again(Pages pages, int* sum) { read(pages, blockIdx.x, sum); }
__global__ void every_second_page(Pages pages, int* sum) { read(pages, 2 * blockIdx.x, sum); }
__global__ void every_eighth_page(Pages pages, int* sum) { read(pages, 8 * blockIdx.x, sum); }
__global__ void one_page_of_2MiB(Pages pages, int* sum) { read(pages, 32 * blockIdx.x, sum); }
__global__ void scattered_pages(Pages pages, int* sum) {
  read(pages, (blockIdx.x * 2654435761ull >> 4) % pages.count, sum);
}
__global__ void written_only(Pages pages, int*) {
  for (size_t byte = threadIdx.x; byte < PAGE; byte += blockDim.x)
    pages.buffer[blockIdx.x * PAGE + byte] = 1;
}

int main(int count_of_arguments, char** arguments) {
  if (count_of_arguments != 2) {
    std::fprintf(stderr, "usage: managed_pages BYTES_OF_A_BUFFER\n");
    return 2;
  }
  const size_t bytes = std::strtoull(arguments[1], nullptr, 10) / PAGE / 32 * 32 * PAGE, count = bytes / PAGE;
  size_t free_bytes = 0, total = 0;
  check(cudaMemGetInfo(&free_bytes, &total));
  if (bytes == 0 || 6 * bytes > free_bytes / 2) {
    std::fprintf(stderr, "managed_pages: 6 buffers of %zu bytes do not fit in half of what is free\n", bytes);
    return 1;
  }
  int* sum = nullptr;
  check(cudaMalloc(&sum, sizeof(int)));
  struct Case {
    void (*kernel)(Pages, int*);
    size_t blocks;
    bool by_host, again;
  } cases[] = {
      {all_pages, count, true, false},           {all_pages_again, count, true, true},
      {every_second_page, count / 2, true, false}, {every_eighth_page, count / 8, true, false},
      {one_page_of_2MiB, count / 32, true, false}, {scattered_pages, count / 16, true, false},
      {written_only, count, false, false},
  };
  Pages pages{nullptr, count};
  for (const Case& each : cases) {
    if (!each.again) check(cudaMallocManaged(&pages.buffer, bytes));
    if (each.by_host && !each.again) std::memset(pages.buffer, 1, bytes);
    each.kernel<<<static_cast<unsigned>(each.blocks), 256>>>(pages, sum);
    check(cudaGetLastError());
    check(cudaDeviceSynchronize());
  }
  return 0;
}
