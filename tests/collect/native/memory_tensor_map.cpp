/* What a tensor map says whose words come as arguments. */
#include "memory_tensor_map.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

int main(int count, char **arguments) {
    pasta::TensorMap map{};
    for (int word = 0; word < 16 && word + 1 < count; ++word) map.words[word] = static_cast<uint32_t>(std::strtoul(arguments[word + 1], nullptr, 16));
    std::printf("%d %" PRIx64 " %u\n", map.is_plain(), map.address(), map.rank());
    for (uint32_t dimension = 0; dimension < map.rank(); ++dimension)
        std::printf("%" PRIu64 " %" PRId64 " %u\n", map.stride(dimension), map.size(dimension), map.box(dimension));
}
