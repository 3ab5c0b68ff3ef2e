/* What patches say to the device in its own words; all else in them is plain C++, which tests run on the host. */
#ifndef PASTA_PATCH_DEVICE_H
#define PASTA_PATCH_DEVICE_H

#include "memory_state.h"

using namespace pasta;

#define DEVICE static __device__ __forceinline__
#define DEVICE_METHOD __device__ __forceinline__

using Count = unsigned long long;

DEVICE uint32_t lane_of_warp() {
    uint32_t lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

DEVICE uint32_t multiprocessor() {
    uint32_t number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
}

/* All state lies in global memory; to say so spares the code for pointers that might not. */
DEVICE void add(uint64_t *counter, uint64_t by) {
    asm volatile("red.global.add.u64 [%0], %1;" ::"l"(counter), "l"(by) : "memory");
}

DEVICE void add(uint32_t *counter, uint32_t by) {
    asm volatile("red.global.add.u32 [%0], %1;" ::"l"(counter), "r"(by) : "memory");
}

DEVICE void set_bits(uint32_t *word, uint32_t bits) {
    asm volatile("red.global.or.b32 [%0], %1;" ::"l"(word), "r"(bits) : "memory");
}

/* A box is read and written as one: its key never stands beside what belongs to another's. */
DEVICE Box read_box(const Box *from) {
    uint64_t key, rest;
    asm volatile("{ .reg .b128 box; ld.relaxed.gpu.global.b128 box, [%2]; mov.b128 {%0, %1}, box; }" : "=l"(key), "=l"(rest) : "l"(from) : "memory");
    return {key, static_cast<uint32_t>(rest), static_cast<uint32_t>(rest >> 32)};
}

DEVICE void write_box(Box *to, const Box &box) {
    uint64_t rest = box.bytes | static_cast<uint64_t>(box.counter) << 32;
    asm volatile("{ .reg .b128 box; mov.b128 box, {%1, %2}; st.relaxed.gpu.global.b128 [%0], box; }" ::"l"(to), "l"(box.key), "l"(rest) : "memory");
}

/* Two words of the program's own, wherever they lie, as its multiprocessor knows them. */
DEVICE void read_words(const uint32_t *from, uint32_t (&words)[2]) {
    asm volatile("ld.v2.u32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "l"(from) : "memory");
}

/* Two words of the program's own, as they are now. */
DEVICE uint64_t read_now(const uint64_t *from) {
    uint64_t words;
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(words) : "l"(from) : "memory");
    return words;
}

#endif
