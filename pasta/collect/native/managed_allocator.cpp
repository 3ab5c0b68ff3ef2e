// An allocator of managed memory for PyTorch (torch.cuda.CUDAPluggableAllocator) that never holds more
// than a limit, so that managed memory is never oversubscribed.

#include <dlfcn.h>
#include <sys/types.h>

#include <cstddef>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>

namespace {

constexpr unsigned kAttachGlobal = 1;

using Allocate = int (*)(void**, size_t, unsigned);
using Free = int (*)(void*);

Allocate allocate_managed = nullptr;
Free free_memory = nullptr;
std::mutex mutex;
std::unordered_map<void*, size_t> sizes;
size_t held = 0;
size_t limit = 0;

}  // namespace

// Takes the CUDA runtime that PyTorch has loaded and the limit in bytes; returns 0 if that is one.
extern "C" int pasta_managed_begin(const char* runtime, size_t most) {
  void* library = dlopen(runtime, RTLD_NOW);
  if (library == nullptr) return 1;
  allocate_managed = reinterpret_cast<Allocate>(dlsym(library, "cudaMallocManaged"));
  free_memory = reinterpret_cast<Free>(dlsym(library, "cudaFree"));
  limit = most;
  return allocate_managed == nullptr || free_memory == nullptr;
}

extern "C" size_t pasta_managed_held() {
  std::lock_guard<std::mutex> guard(mutex);
  return held;
}

extern "C" void* pasta_managed_allocate(ssize_t size, int /*device*/, void* /*stream*/) {
  std::lock_guard<std::mutex> guard(mutex);
  const size_t wanted = size > 0 ? static_cast<size_t>(size) : 0;
  if (wanted > limit - held)
    throw std::runtime_error("pasta: " + std::to_string(wanted) + " bytes more than the " +
                             std::to_string(held) + " held would exceed the " +
                             std::to_string(limit) + " that managed memory may take here");
  void* address = nullptr;
  const int status = allocate_managed(&address, wanted, kAttachGlobal);
  if (status != 0)
    throw std::runtime_error("pasta: cudaMallocManaged failed with status " +
                             std::to_string(status));
  sizes[address] = wanted;
  held += wanted;
  return address;
}

extern "C" void pasta_managed_free(void* address, ssize_t /*size*/, int /*device*/,
                                   void* /*stream*/) {
  std::lock_guard<std::mutex> guard(mutex);
  const auto found = sizes.find(address);
  if (found == sizes.end()) return;
  held -= found->second;
  sizes.erase(found);
  free_memory(address);
}
