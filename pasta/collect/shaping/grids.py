"""Grids that are counted in threads, in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

_U32_MAX = (1 << 32) - 1


def blocks(threads: pa.Array[Any], block: pa.Array[Any]) -> pa.Array[Any]:
    """Return how many blocks a grid has in one dimension; null where either is 0 or unknown.

    Args:
        threads: threads (work-items) of the grid in that dimension.
        block: threads of a block (work-items of a work-group); the last block may be partial.
    """
    grid = threads.fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    size = block.fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    known = (grid > 0) & (size > 0)
    count = -(-grid // np.where(known, size, 1))
    known &= count <= _U32_MAX
    return pa.array(np.where(known, count, 0), mask=~known).cast(pa.uint32())
