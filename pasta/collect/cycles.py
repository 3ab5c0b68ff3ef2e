"""Cycles of PyTorch's profiler: each is a file that becomes rows of a trace that is being recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa

from pasta.collect.importers.json_events import BLOCK_BYTES
from pasta.collect.importers.kineto_finish import Collectives, completion
from pasta.collect.importers.kineto_reading import Reading
from pasta.collect.losses import Losses
from pasta.collect.sources import Source, open_sources
from pasta.errors import InputError
from pasta.schema import arrow_schema
from pasta.trace_merge import conform
from pasta.trace_writer import PartWriter

_UNIQUE_IN_CYCLE = {
    "span": ("external_id", "stack_id"),
    "call": ("external_id", "correlation", "stack_id"),
    "kernel": ("external_id", "correlation", "launch_id"),
    "copy": ("external_id", "correlation"),
    "sync": ("external_id", "correlation", "waited_correlation"),
    "collective": ("correlation", "launch_id"),
    "frame": ("stack_id",),
}
_UNREADABLE = "cycles of PyTorch's profiler that could not be read: {}"
_COLLECTOR = "torch"
_OF_EVERY_CYCLE = ("event of category 'Trace'", "instant event (marks of the recording")
"""What the profiler says of the cycle itself: nothing is lost with it."""

Append = Callable[[str, pa.Table], None]


class Cycles:
    """The cycles of one process, in the order in which they ended.

    Ids that the profiler counts anew in each cycle go on from those of the cycle before. Spans have
    no ids and parents: they get them when the trace is finished, among those of the hooks.

    Args:
        rank: rank of the process.
        pid: the process.
        append: takes rows of a table.
    """

    def __init__(self, rank: int, pid: int, append: Append) -> None:
        self._rank, self._pid = rank, pid
        self._append = append
        self._used: dict[str, int] = {}
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
        used = dict(self._used)
        for table, rows in part.tables.items():
            if table == "process":
                continue
            frame = rows
            if table == "collective":
                frame = self._collectives.add(frame.sort("ts", maintain_order=True))
            frame = complete(frame).with_columns(rank=pl.lit(self._rank, dtype=pl.Int32))
            frame = frame.with_columns(
                self._unique(frame, name, used) for name in _UNIQUE_IN_CYCLE.get(table, ())
            )
            self._append(table, frame.to_arrow(compat_level=pl.CompatLevel.oldest()))
        self._used = used

    def _unique(self, frame: pl.DataFrame, name: str, used: dict[str, int]) -> pl.Expr:
        """Return ids that go on from the cycles before; 0 stays 0."""
        counter = "correlation" if name == "waited_correlation" else name
        before = self._used.get(counter, 0)
        largest = frame[name].max()
        if isinstance(largest, int):
            used[counter] = max(used.get(counter, 0), before + largest)
        ids = pl.col(name)
        return pl.when(ids > 0).then(ids + before).otherwise(ids).alias(name)


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
