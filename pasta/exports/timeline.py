"""Rows of several tables in order of time, a batch of each held at a time."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import polars as pl
import pyarrow.parquet as pq

from pasta.exports.exporter import Exported
from pasta.trace import Trace

COLUMNS: dict[str, tuple[str, ...]] = {
    "span": ("tid", "dur", "span_id", "parent_id", "level", "name", "external_id", "input_shapes"),
    "call": ("tid", "dur", "correlation", "external_id", "name", "bytes"),
    "kernel": (
        *("device", "dur", "correlation", "external_id", "context", "stream", "name", "launch_id"),
        *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
    ),
    "copy": ("device", "dur", "correlation", "external_id", "context", "stream", "kind", "bytes"),
    "sync": ("device", "dur", "correlation", "external_id", "context", "stream", "kind"),
    "memory": ("device", "event", "space", "address", "bytes", "total_allocated"),
    "metric": ("device", "dur", "name", "value", "unit"),
}
"""The columns that are read of each table, beside `rank`, `pid` and `ts`."""

DEVICE_TABLES = frozenset({"kernel", "copy", "sync"})
_KEY = ("rank", "pid", "ts")
_BATCH_ROWS = 1 << 14
_FOREVER = 1 << 62
NO_TIME = "rows without a time: left out"
NO_END = "rows without a duration: written as unfinished"
_LEFT_OUT = "rows without a duration: left out"


class Event(NamedTuple):
    """One row; events are in order of their first fields.

    Attributes:
        ts: when it began, in ns.
        before_end: the negative of when it ended, so that what encloses comes first.
        order: of its table among those asked for.
        number: counts rows of one table.
        table: its table.
        row: its columns.
    """

    ts: int
    before_end: int
    order: int
    number: int
    table: str
    row: dict[str, Any]

    @property
    def end(self) -> int | None:
        """When it ended; `None`: it is not known."""
        return None if self.before_end == -_FOREVER else -self.before_end


def timeline(
    trace: Trace, tables: Sequence[str], exported: Exported, *, unfinished: bool = True
) -> Iterator[Event]:
    """Give the rows of tables in order of time; of two with one start the longer comes first.

    Args:
        trace: the trace.
        tables: names of tables; those that it lacks count as empty.
        exported: where rows are counted.
        unfinished: whether rows without a duration are given too.
    """
    every: list[list[int] | None] = [[rank] for rank in trace.ranks]
    streams = [
        _events(trace, ranks, table, order, exported, unfinished=unfinished)
        for order, table in enumerate(tables)
        if trace.has(table)
        for ranks in every or [None]
    ]
    return heapq.merge(*streams)


def _events(
    trace: Trace,
    ranks: list[int] | None,
    table: str,
    order: int,
    exported: Exported,
    *,
    unfinished: bool,
) -> Iterator[Event]:
    number = (ranks[0] if ranks else 0) << 40
    for batch in _batches(trace, ranks, table):
        for row in batch:
            number += 1
            ts, dur = row["ts"], row.get("dur", 0)
            if ts is None or ts < 0:
                exported.losses[NO_TIME] += 1
                continue
            if dur is None and table != "metric":
                exported.losses[NO_END if unfinished else _LEFT_OUT] += 1
                if not unfinished:
                    continue
            end = _FOREVER if dur is None else ts + dur
            exported.rows[table] += 1
            yield Event(ts, -end, order, number, table, row)


def _batches(trace: Trace, ranks: list[int] | None, table: str) -> Iterator[list[dict[str, Any]]]:
    columns = [*_KEY, *COLUMNS[table]]
    lazy = trace.scan(table, ranks)
    times = lazy.select("ts").collect()["ts"]
    files = trace.files(table, ranks)
    if times.null_count() or not _in_order(times, table, lazy):
        by = [pl.col("ts"), -pl.col("dur")] if "dur" in columns else [pl.col("ts")]
        rows = lazy.select(columns).sort(by, nulls_last=[False] * len(by), maintain_order=True)
        for piece in rows.collect().iter_slices(_BATCH_ROWS):
            yield piece.to_dicts()
        return
    for file in files:
        opened = pq.ParquetFile(file)
        kept = [name for name in columns if name in opened.schema_arrow.names]
        absent = dict.fromkeys(name for name in columns if name not in kept)
        for batch in opened.iter_batches(_BATCH_ROWS, columns=kept):
            rows_of_batch = batch.to_pylist()
            yield [{**absent, **row} for row in rows_of_batch] if absent else rows_of_batch


def _in_order(times: pl.Series, table: str, lazy: pl.LazyFrame) -> bool:
    """Tell whether rows are in order of start and, of one start, the longer first."""
    if not times.is_sorted():
        return False
    if "dur" not in COLUMNS[table]:
        return True
    dur = pl.col("dur").fill_null(_FOREVER)
    wrong = (pl.col("ts") == pl.col("ts").shift()) & (dur > dur.shift())
    return not lazy.select(wrong.any()).collect().item()
