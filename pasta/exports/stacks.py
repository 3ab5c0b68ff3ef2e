"""Stacks of samples, by the thread that they are of."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pyarrow.parquet as pq

from pasta.exports.exporter import Exported
from pasta.trace import Trace

_UNKNOWN_STACK = "samples without a known stack: written as `unknown`"
_BATCH_ROWS = 1 << 16
_COLUMNS = ("rank", "pid", "tid", "stack_id", "weight")

Stack = tuple[int, int, int]
"""Rank, pid and id of a stack."""


def stacks(trace: Trace) -> dict[Stack, list[str]]:
    """Return the functions of each stack, outermost first."""
    found: dict[Stack, list[str]] = {}
    if trace.has("frame"):
        frames = trace.scan("frame").sort("rank", "pid", "stack_id", "depth")
        columns = frames.select(pl.col("rank", "pid", "stack_id").fill_null(0), "function")
        for rank, pid, stack, name in columns.collect().iter_rows():
            found.setdefault((rank, pid, stack), []).append(name or "unknown")
    return found


def samples(
    trace: Trace, known: dict[Stack, list[str]], exported: Exported
) -> Iterator[pl.DataFrame]:
    """Give the samples in batches, in the order of the files, and count them.

    Args:
        trace: which has samples.
        known: its stacks.
        exported: where samples and those of unknown stacks are counted.

    Returns:
        Frames of `rank`, `pid`, `tid`, `stack_id` and `weight`; a stack that is not known is 0, a weight
        that is not known or 0 is 1.
    """
    ids = pl.DataFrame(list(known), {"rank": pl.Int32, "pid": pl.Int64, "stack_id": pl.UInt64}, orient="row")  # fmt: skip
    for file in trace.files("sample"):
        for batch in pq.ParquetFile(file).iter_batches(_BATCH_ROWS, columns=list(_COLUMNS)):
            rows = pl.DataFrame(pl.from_arrow(batch)).with_columns(pl.col(_COLUMNS).fill_null(0))
            told = rows.join(ids.with_columns(told=True), on=ids.columns, how="left", maintain_order="left")  # fmt: skip
            exported.rows["sample"] += rows.height
            exported.lose(_UNKNOWN_STACK, told["told"].null_count())
            yield told.with_columns(
                pl.when(pl.col("told")).then("stack_id").otherwise(0).alias("stack_id"),
                pl.col("weight").replace(0.0, 1.0),
            ).drop("told")
