/* Prints which tensor copies kernels have, of a module in a file: load, store, reduce.
 *
 *     tensor_kernels FILE [KERNEL]... */
#include "tensor_kernels.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

using namespace pasta;

int main(int count, char **arguments) {
    std::ifstream file(arguments[1], std::ios::binary);
    const std::vector<char> image(std::istreambuf_iterator<char>(file), {});
    TensorKernels kernels;
    auto *module = reinterpret_cast<CUmodule>(1);
    kernels.loaded(module, image.data(), image.size());
    for (int argument = 2; argument < count; ++argument) {
        TensorCopies copies = kernels.of(module, arguments[argument]);
        std::printf("%d%d%d\n", copies.load, copies.store, copies.reduce);
    }
    kernels.unloads(module);
    return count > 2 && kernels.of(module, arguments[2]).any();
}
