"""Records of accesses, and the rows that they stand for, made one by one."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa

from pasta.collect.warp_accesses import LANES, WARP, WARP_ACCESS
from pasta.schema import arrow_schema

SHARED = ("device", "launch_id", "request", "pc", "bytes", "op", "space", "warp", "block")


def records(seed: int, count: int, *, launches: int = 3, split: bool = False) -> np.ndarray:
    """Return records in no order; with `split` some are parts of one request."""
    rng = np.random.default_rng(seed)
    made = np.zeros(count, WARP)
    for name, most in zip(SHARED, (2, launches, 1 << 40, 500, 17, 4, 6, 32, 1 << 40), strict=True):
        made[name] = rng.integers(0, most, count)
    made["request"] = rng.permutation(count)
    made["base"] = rng.integers(1 << 33, 1 << 62, count)
    made["lanes"] = rng.choice([0xFFFFFFFF, 1, 1 << 31, int(rng.integers(1, 1 << 32))], count)
    made["distances"] = rng.integers(-(1 << 31), 1 << 31, (count, LANES))
    if split:
        even = made[::3].copy()
        odd = even.copy()
        even["lanes"], odd["lanes"] = 0x55555555, 0xAAAAAAA0
        odd["base"] += np.uint64(1 << 40)
        made = rng.permutation(np.concatenate([made[1::3], made[2::3], even, odd]))
    return made


def rows(made: np.ndarray, rank: int, pid: int) -> pl.DataFrame:
    """Return the rows of `access`, sorted."""
    found = [
        {
            "rank": rank,
            "pid": pid,
            **{name: int(record[name]) for name in SHARED},
            "lane": lane,
            "address": int(record["base"]) + int(record["distances"][lane]),
        }
        for record in made
        for lane in range(LANES)
        if int(record["lanes"]) >> lane & 1
    ]
    frame = pl.from_arrow(pa.Table.from_pylist(found, schema=arrow_schema("access")))
    assert isinstance(frame, pl.DataFrame)
    return frame.sort("launch_id", "request", "lane")


def items(made: np.ndarray) -> list[list[int]]:
    """Return the records as a producer writes them."""
    return made.view(np.int64).reshape(len(made), WARP.itemsize // 8).tolist()


def batch(made: np.ndarray) -> pa.RecordBatch:
    """Return the records as a batch of `warp_access`."""
    return pa.RecordBatch.from_arrays(
        [pa.array(items(made), WARP_ACCESS["record"])], names=["record"]
    )
