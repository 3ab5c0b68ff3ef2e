/* Whether tensor maps are read as this driver makes them: those of cards to come may be laid out otherwise. */
#ifndef PASTA_TENSOR_MAP_CHECK_H
#define PASTA_TENSOR_MAP_CHECK_H

#include "memory_tensor_map.h"

#include <cuda.h>

#include <cstring>

namespace pasta {

/* Needs a current context, for which the driver makes maps. */
inline bool reads_tensor_maps(decltype(&cuTensorMapEncodeTiled) encode) {
    struct Type {
        CUtensorMapDataType name;
        uint32_t bytes;
    };
    const Type types[] = {{CU_TENSOR_MAP_DATA_TYPE_UINT8, 1}, {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2}, {CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, 4}, {CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 8}};
    const cuuint64_t address = 0x12345678ABC0, sizes[] = {4801, 77, 33, 9, 3};
    const cuuint64_t strides[] = {1 << 24, 80ull << 24, 80ull * 64 << 24, 80ull * 64 * 12 << 24}; /* each of whole ones of the dimension before */
    const cuuint32_t box[] = {16, 20, 3, 5, 2}, steps[] = {1, 1, 1, 1, 1};
    if (!encode) return false;
    for (const Type &type : types) {
        for (uint32_t rank = 1; rank <= 5; ++rank) {
            alignas(64) CUtensorMap made;
            CUresult result = encode(&made, type.name, rank, reinterpret_cast<void *>(address), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                     CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
            TensorMap read;
            std::memcpy(&read, &made, sizeof(read));
            bool right = result == CUDA_SUCCESS && read.is_plain() && read.address() == address && read.rank() == rank;
            for (uint32_t dimension = 0; dimension < rank; ++dimension) {
                uint64_t stride = dimension ? strides[dimension - 1] : type.bytes;
                right = right && read.stride(dimension) == stride && read.size(dimension) == static_cast<int64_t>(sizes[dimension]) && read.box(dimension) == box[dimension];
            }
            if (!right) return false;
        }
    }
    return true;
}

} // namespace pasta

#endif
