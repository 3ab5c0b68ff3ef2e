"""Rows of several tables in order of time, a slice of time held at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from pasta.exports.exporter import Exported
from pasta.exports.runs import runs_of, slices
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
    "memory": ("device", "event", "space", "address", "bytes"),
    "metric": ("device", "name", "value", "unit"),
}
"""The columns that are read of each table, beside `rank`, `pid` and `ts`."""

HOST_TABLES = frozenset({"span", "call"})
DEVICE_TABLES = frozenset({"kernel", "copy", "sync"})
FOREVER = 1 << 62
NO_TIME = "rows without a time: left out"
NO_END = "rows without a duration: written as unfinished"
_LEFT_OUT = "rows without a duration: left out"
_KEY = ("rank", "pid", "ts")
_ZERO_IF_UNKNOWN = ("rank", "pid", "tid", "correlation", "external_id", "span_id", "parent_id")

Slice = dict[str, pl.DataFrame]
"""The rows of each table that begin in a slice of time, in order of time; of one start the longer first.

Tables with a duration have `end`, `FOREVER` where it is not known. Unknown ids are 0. Texts are categories.
"""


def timeline(
    trace: Trace,
    tables: Sequence[str],
    exported: Exported,
    *,
    unfinished: bool = True,
    columns: Sequence[str] | None = None,
) -> Iterator[Slice]:
    """Give the rows of tables, slice after slice of time.

    Args:
        trace: the trace.
        tables: names of tables; those that it lacks count as empty.
        exported: where rows are counted.
        unfinished: whether rows without a duration are given too.
        columns: of those in `COLUMNS` the ones that are needed.
    """
    present = [table for table in tables if trace.has(table)]
    with TemporaryDirectory(prefix="pasta-export-") as scratch:
        runs = []
        for table in present:
            wanted = [c for c in COLUMNS[table] if columns is None or c in columns]
            runs += runs_of(trace, table, [*_KEY, *wanted], Path(scratch))
        given = dict.fromkeys(present, 0)
        for found in slices(runs):
            for table, rows in found.items():
                given[table] += rows.height
            whole = {
                t: _completed(rows, exported, unfinished=unfinished) for t, rows in found.items()
            }
            for table, rows in whole.items():
                exported.rows[table] += rows.height
            yield {table: rows for table, rows in whole.items() if rows.height}
        timeless = sum(trace.rows(table) - given[table] for table in present)
        exported.lose(NO_TIME, timeless)


def _completed(rows: pl.DataFrame, exported: Exported, *, unfinished: bool) -> pl.DataFrame:
    """Return rows with their end, sorted by start and end."""
    ids = [name for name in _ZERO_IF_UNKNOWN if name in rows.columns and rows[name].null_count()]
    rows = rows.with_columns(pl.col(ids).fill_null(0))
    if "dur" not in rows.columns:
        return rows
    exported.lose(NO_END if unfinished else _LEFT_OUT, rows["dur"].null_count())
    if not unfinished:
        rows = rows.filter(pl.col("dur").is_not_null())
    end = (pl.col("ts") + pl.col("dur")).fill_null(FOREVER).alias("end")
    rows = rows.with_columns(end).drop("dur")
    starts, ends = rows["ts"].to_numpy(), rows["end"].to_numpy()
    if ((starts[1:] == starts[:-1]) & (ends[1:] > ends[:-1])).any():
        rows = rows.sort("ts", -pl.col("end"), maintain_order=True)
    return rows
