"""Cycles of PyTorch's profiler: each is a file that becomes rows of a trace that is being recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl
import pyarrow as pa

from pasta.collect.containers.json_events import BLOCK_BYTES
from pasta.collect.importers.kineto.finish import Collectives, DistinctFrames, completion
from pasta.collect.importers.kineto.reading import Reading
from pasta.collect.losses import Losses
from pasta.collect.sources import Source, open_sources
from pasta.errors import InputError
from pasta.schema import arrow_schema
from pasta.trace_merge import conform
from pasta.trace_writer import PartWriter

_COUNTERS = {
    "external_id": ("external_id",),
    "correlation": ("correlation", "waited_correlation"),
    "launch_id": ("launch_id",),
}
"""What the profiler or the importer counts, and the columns with such numbers."""
_NO_IDS = pl.Series(dtype=pl.UInt64)
_UNREADABLE = "cycles of PyTorch's profiler that could not be read: {}"
_COLLECTOR = "torch"
_OF_EVERY_CYCLE = ("event of category 'Trace'", "instant event (marks of the recording")
"""What the profiler says of the cycle itself: nothing is lost with it."""

Append = Callable[[str, pa.Table], None]


class Cycles:
    """The cycles of one process, in the order in which they ended.

    Ids that are counted anew in a cycle go on from those of the cycles before; others stay as they
    are. Spans have no ids and parents: they get them when the trace is finished, among those of
    the hooks.

    Args:
        rank: rank of the process.
        pid: the process.
        append: takes rows of a table.
    """

    def __init__(self, rank: int, pid: int, append: Append) -> None:
        self._rank, self._pid = rank, pid
        self._append = append
        self._used = dict.fromkeys(_COUNTERS, 0)
        self._frames = DistinctFrames()
        self._communicators: set[str] = set()
        self._collectives = Collectives(set())

    def add(self, path: Path, shift_ns: int) -> None:
        """Append the rows of a cycle's file; what cannot be read is counted.

        Args:
            path: the file.
            shift_ns: added to all its times.
        """
        losses = Losses(_COLLECTOR, path.name)
        try:
            for source in open_sources([path]):
                self._add(source, shift_ns, losses)
        except InputError as error:
            losses.skip(_UNREADABLE.format(error))
        lost = losses.rows(self._rank, self._pid).to_pylist()
        lost = [row for row in lost if not row["reason"].startswith(_OF_EVERY_CYCLE)]
        self._append("loss", pa.Table.from_pylist(lost, schema=arrow_schema("loss")))

    def _add(self, source: Source, shift_ns: int, losses: Losses) -> None:
        part = _Gathered()
        reading = Reading(source, part, losses, BLOCK_BYTES)
        reading.read()
        reading.finish()
        reading.origin.append_tables(reading.tables, part, losses)
        self._append_tables(part, reading, shift_ns)
        losses.shift(reading.origin.base_ns + shift_ns)

    def _append_tables(self, part: _Gathered, reading: Reading, shift_ns: int) -> None:
        complete = completion(self._pid, reading.origin.base_ns + shift_ns)
        self._communicators |= reading.tables.device_communicators
        self._collectives.on_devices = sorted(self._communicators)
        tables = {table: rows for table, rows in part.tables.items() if table != "process"}
        shifts = self._go_on(tables)
        for table, rows in tables.items():
            frame = rows.with_columns(
                _shifted(name, by) for name, by in shifts.items() if name in rows.columns
            )
            if table == "collective":
                frame = self._collectives.add(frame.sort("ts", maintain_order=True))
            elif table == "frame":
                frame = self._frames.add(frame)
            elif table == "thread":
                frame = frame.with_columns(_thread_name(self._pid))
            frame = complete(frame).with_columns(rank=pl.lit(self._rank, dtype=pl.Int32))
            self._append(table, frame.to_arrow(compat_level=pl.CompatLevel.oldest()))

    def _go_on(self, tables: Mapping[str, pl.DataFrame]) -> dict[str, int]:
        """Return what is added to the ids of each column, so that none is used twice."""
        shifts: dict[str, int] = {}
        for counter, columns in _COUNTERS.items():
            found = [frame[counter] for frame in tables.values() if counter in frame.columns]
            ids = pl.concat([series.filter(series > 0) for series in found] or [_NO_IDS])
            if ids.is_empty():
                continue
            smallest, largest = int(ids.min()), int(ids.max())  # type: ignore[arg-type]
            shift = self._used[counter] if smallest <= self._used[counter] else 0
            self._used[counter] = largest + shift
            shifts |= dict.fromkeys(columns, shift)
        return shifts


def _shifted(name: str, by: int) -> pl.Expr:
    """Return ids that are moved on; 0 stays 0."""
    ids = pl.col(name)
    return pl.when(ids > 0).then(ids + by).otherwise(ids).alias(name)


def _thread_name(pid: int) -> pl.Expr:
    """Return what the system calls a thread, out of `thread 7 (pt_autograd_0)`.

    The main thread is called as the program there, which is no name for it.
    """
    name = pl.col("name").str.extract(r"^thread \d+ \((.*)\)$")
    return pl.when(pl.col("tid") != pid).then(pl.coalesce(name, "name")).alias("name")


class _Gathered(PartWriter):
    """The tables of one cycle, in memory: files would cost a small cycle most of its time."""

    def __init__(self) -> None:
        self._batches: dict[str, list[pa.Table]] = {}

    def append(self, table: str, batch: pa.RecordBatch | pa.Table) -> None:
        """Keep rows."""
        if batch.num_rows:
            self._batches.setdefault(table, []).append(conform(table, batch))

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The rows by table, in the order in which they came."""
        frames = {}
        for table, batches in self._batches.items():
            frame = pl.from_arrow(pa.concat_tables(batches))
            assert isinstance(frame, pl.DataFrame)  # noqa: S101
            frames[table] = frame
        return frames
