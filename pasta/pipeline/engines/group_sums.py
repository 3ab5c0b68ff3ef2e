"""Numbers of rows and sums of groups by integers, added up close to where a GPU computes.

Rows of a trace that belong together lie together. Each block of threads adds its rows up in a small
table in shared memory, and that to one of all groups in the device's memory: docs/performance.md, Engines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

MOST_SUMS = 8

_KEY_BITS = 63
"""Bits in which the keys of a row fit together; all 64 set is the mark of a free place."""

_PLACES_BITS = 22
"""Places of the table of all groups, as a power of two."""

_NEAR_BYTES = 96 << 10
"""Shared memory of a block of threads: two of them run on each multiprocessor."""

_NEAR_BITS = 12
"""Places of a block's table at most, as a power of two."""

_THREADS = 1024
_BLOCK_ROWS = 1 << 15
_PIECE_ROWS = 1 << 25
"""Rows whose keys are packed at a time, which bounds the memory for it."""

_SOURCE = r"""
using word = unsigned long long;

constexpr word FREE = ~0ull;
constexpr int NEAR_STEPS = 8, FAR_STEPS = 128;

/* Finds the place of a key among 1 << bits, `stride` words apart, or takes one; -1: none within `steps`. */
__device__ int place_of(word key, word* keys, int stride, int bits, int steps) {
    const int last = (1 << bits) - 1;
    int place = (key * 0x9E3779B97F4A7C15ull) >> (64 - bits);
    for (int step = 0; step < steps; ++step, place = (place + 1) & last) {
        word* held = keys + static_cast<size_t>(place) * stride;
        word found = *held;
        if (found == FREE) found = atomicCAS(held, FREE, key);
        if (found == FREE || found == key) return place;
    }
    return -1;
}

/* Adds to 64 bits kept as two words of 32, for which shared memory has an instruction. */
__device__ void add_near(unsigned* low, unsigned* high, word value) {
    const unsigned added = static_cast<unsigned>(value);
    const unsigned carried = added && atomicAdd(low, added) + added < added;
    const unsigned rest = static_cast<unsigned>(value >> 32) + carried;
    if (rest) atomicAdd(high, rest);
}

/* values: a column each, of 64 bits where `wide` says so, else of 32.
   table: for each place its key, its number of rows and its sums. */
extern "C" __global__ void __launch_bounds__(1024, 2) add_rows(
        const word* packed, long long begin, int rows, int block_rows,
        const void* const* values, int sums, unsigned wide,
        int near_bits, word* table, int far_bits, int* is_full) {
    extern __shared__ word near_keys[];
    const int near_places = 1 << near_bits, stride = 2 + sums;
    unsigned* const near_rows = reinterpret_cast<unsigned*>(near_keys + near_places);
    unsigned* const near_sums = near_rows + near_places;
    for (int place = threadIdx.x; place < near_places; place += blockDim.x) {
        near_keys[place] = FREE;
        for (int word_number = 0; word_number <= 2 * sums; ++word_number)
            near_rows[word_number * near_places + place] = 0;
    }
    if (__syncthreads_or(*static_cast<volatile int*>(is_full))) return;

    const auto value_of = [&](int sum, int row) -> word {
        const void* column = values[sum];
        return wide >> sum & 1 ? static_cast<const long long*>(column)[begin + row]
                               : static_cast<const int*>(column)[begin + row];
    };
    const auto far_place = [&](word key) -> word* {
        const int place = place_of(key, table, stride, far_bits, FAR_STEPS);
        if (place < 0) *is_full = 1;
        return place < 0 ? nullptr : table + static_cast<size_t>(place) * stride;
    };
    const int first = blockIdx.x * block_rows, end = min(rows, first + block_rows);
    for (int row = first + threadIdx.x; row < end; row += blockDim.x) {
        const word key = packed[row];
        const int near = place_of(key, near_keys, 1, near_bits, NEAR_STEPS);
        if (near >= 0) {
            atomicAdd(near_rows + near, 1u);
            for (int sum = 0; sum < sums; ++sum) {
                unsigned* low = near_sums + 2 * sum * near_places + near;
                add_near(low, low + near_places, value_of(sum, row));
            }
        } else if (word* far = far_place(key)) {
            atomicAdd(far + 1, 1ull);
            for (int sum = 0; sum < sums; ++sum) atomicAdd(far + 2 + sum, value_of(sum, row));
        }
    }
    __syncthreads();
    for (int near = threadIdx.x; near < near_places; near += blockDim.x) {
        if (near_keys[near] == FREE) continue;
        word* far = far_place(near_keys[near]);
        if (!far) continue;
        atomicAdd(far + 1, static_cast<word>(near_rows[near]));
        for (int sum = 0; sum < sums; ++sum) {
            const unsigned* low = near_sums + 2 * sum * near_places + near;
            atomicAdd(far + 2 + sum, static_cast<word>(low[near_places]) << 32 | *low);
        }
    }
}
"""


@dataclass(frozen=True)
class Groups:
    """Groups in no order.

    Attributes:
        keys: cupy arrays of the types of the keys, a value for each group.
        rows: numbers of rows, of 64 bits.
        sums: of 64 bits, modulo 2^64 as those of libcudf.
    """

    keys: Sequence[Any]
    rows: Any
    sums: Sequence[Any]


@dataclass(frozen=True)
class _Packing:
    """Where the bits of a key are in a word, less its least value."""

    least: int
    bits: int
    shift: int


def group_sums(keys: Sequence[Any], values: Sequence[Any]) -> Groups | None:
    """Group rows by `keys` and add up `values`; `None`: there are more groups, or wider keys, than fit.

    Args:
        keys: cupy arrays of integers, at least one, of one length that is not 0.
        values: up to `MOST_SUMS` arrays of signed integers of 32 or 64 bits, of that length.
    """
    import cupy

    packings = _packings(keys)
    if packings is None:
        return None
    stride = 2 + len(values)
    table = cupy.zeros((1 << _PLACES_BITS, stride), cupy.uint64)
    table[:, 0] = ~cupy.uint64(0)
    is_full = cupy.zeros(1, cupy.int32)
    pointers = cupy.asarray([value.data.ptr for value in values], cupy.uint64)
    wide = sum((value.itemsize == 8) << number for number, value in enumerate(values))
    bits, near_bytes = _near_table(len(values))
    add_rows = _kernel()
    for begin in range(0, len(keys[0]), _PIECE_ROWS):
        packed = _packed([key[begin : begin + _PIECE_ROWS] for key in keys], packings)
        sizes = (cupy.int64(begin), cupy.int32(len(packed)), cupy.int32(_BLOCK_ROWS))
        given = (pointers, cupy.int32(len(values)), cupy.uint32(wide))
        places = (cupy.int32(bits), table, cupy.int32(_PLACES_BITS), is_full)
        blocks = -(-len(packed) // _BLOCK_ROWS)
        add_rows((blocks,), (_THREADS,), (packed, *sizes, *given, *places), shared_mem=near_bytes)
    if int(is_full[0]):
        return None
    found = table[cupy.flatnonzero(table[:, 1])]
    held = [
        _unpacked(found[:, 0], where, key.dtype) for where, key in zip(packings, keys, strict=True)
    ]
    sums = [found[:, place].astype(cupy.int64) for place in range(2, stride)]
    return Groups(held, found[:, 1].astype(cupy.int64), sums)


def _packings(keys: Sequence[Any]) -> list[_Packing] | None:
    found, shift = [], 0
    for key in keys:
        least = int(key.min())
        bits = (int(key.max()) - least).bit_length()
        found.append(_Packing(least, bits, shift))
        shift += bits
        if shift > _KEY_BITS:
            return None
    return found


def _packed(keys: Sequence[Any], packings: Sequence[_Packing]) -> Any:
    import cupy

    packed = cupy.zeros(len(keys[0]), cupy.uint64)
    for key, where in zip(keys, packings, strict=True):
        if where.bits:
            _packer()(key, _word(where.least), cupy.uint64(where.shift), packed)
    return packed


def _unpacked(packed: Any, where: _Packing, kind: Any) -> Any:
    import cupy

    bits = packed >> cupy.uint64(where.shift) & cupy.uint64((1 << where.bits) - 1)
    return (bits + _word(where.least)).astype(kind)


def _word(value: int) -> Any:
    """Return a number as an unsigned one of 64 bits, negative ones as they are added modulo 2^64."""
    import numpy as np

    return np.uint64(value % (1 << 64))


def _near_table(sums: int) -> tuple[int, int]:
    """Return the power of two of places in a block's table, and its bytes."""
    place_bytes = 8 + 4 * (1 + 2 * sums)
    bits = min((_NEAR_BYTES // place_bytes).bit_length() - 1, _NEAR_BITS)
    return bits, place_bytes << bits


@cache
def _packer() -> Any:
    import cupy

    return cupy.ElementwiseKernel(
        "T key, uint64 least, uint64 shift",
        "uint64 packed",
        "packed |= (static_cast<unsigned long long>(key) - least) << shift",
        "pack_key",
    )


@cache
def _kernel() -> Any:
    import cupy

    add_rows = cupy.RawKernel(_SOURCE, "add_rows", options=("--std=c++17",))
    add_rows.max_dynamic_shared_size_bytes = (
        _NEAR_BYTES  # of all calls, as several threads make some at once
    )
    return add_rows
