/* A tensor map as the hardware reads it, by which tensor copies (TMA) tell what they read.
 *
 * It is 64 bytes, of which cuTensorMapEncodeTiled documents what goes in and not where: the layout is that
 * of what it makes, from which libraries that write maps without the driver do not depart. What the
 * driver puts behind them is its own. */
#ifndef PASTA_MEMORY_TENSOR_MAP_H
#define PASTA_MEMORY_TENSOR_MAP_H

#include <cstdint>

#ifdef __CUDACC__
#define PASTA_OF_TENSOR_MAP __host__ __device__ __forceinline__
#else
#define PASTA_OF_TENSOR_MAP inline
#endif

namespace pasta {

struct alignas(16) TensorMap {
    static constexpr uint32_t USED = 15; /* words that say what is copied, and how */

    uint32_t words[16];

    PASTA_OF_TENSOR_MAP uint64_t address() const { return words[0] | static_cast<uint64_t>(words[1]) << 32; }
    PASTA_OF_TENSOR_MAP uint32_t rank() const { return rank_of(words[2]); }
    PASTA_OF_TENSOR_MAP static uint32_t rank_of(uint32_t third_word) { return (third_word >> 4 & 7) + 1; }

    /* Elements of whole bytes, side by side, none left out: the others are not read here. A step says nothing
     * along a dimension of which a box has one element. */
    PASTA_OF_TENSOR_MAP bool is_plain() const {
        bool plain = is_known() && !is_interleaved();
        for (uint32_t dimension = 0; dimension < 5; ++dimension)
            plain = plain && (box(dimension) == 1 || !(words[13] >> 3 * dimension & 7));
        return plain;
    }

    PASTA_OF_TENSOR_MAP bool is_known() const { return rank() <= 5 && element_type() < ELEMENT_TYPES; }
    PASTA_OF_TENSOR_MAP bool is_interleaved() const { return words[2] >> 11 & 3; }

    /* Bytes from one element to the next along a dimension. */
    PASTA_OF_TENSOR_MAP uint64_t stride(uint32_t dimension) const {
        if (dimension == 0) return 1u << (SHIFT_OF_ELEMENTS >> 4 * element_type() & 15);
        uint64_t high = words[7] >> 4 * (dimension - 1) & 15;
        return (high << 32 | words[2 + dimension]) << 4;
    }

    /* Elements of the tensor, and of the box that is copied, along a dimension. */
    PASTA_OF_TENSOR_MAP int64_t size(uint32_t dimension) const { return static_cast<int64_t>(words[8 + dimension]) + 1; }
    PASTA_OF_TENSOR_MAP uint32_t box(uint32_t dimension) const {
        return (dimension == 0 ? words[13] >> 24 : words[14] >> 8 * (dimension - 1) & 255) + 1;
    }

  private:
    static constexpr uint32_t ELEMENT_TYPES = 11;
    static constexpr uint64_t SHIFT_OF_ELEMENTS = 0x13221332210; /* u8, u16, u32, s32, u64, s64, f16, f32, f32 (flushed), f64, bf16 */

    PASTA_OF_TENSOR_MAP uint32_t element_type() const { return words[2] >> 7 & 15; }
};
static_assert(sizeof(TensorMap) == 64, "as the hardware reads it");

} // namespace pasta

#endif
