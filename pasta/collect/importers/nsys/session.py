"""One export being imported: its rows, in columns that fit the trace, and what they are of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pasta.ahead import ahead
from pasta.collect.importers.nsys.export import Export
from pasta.collect.importers.nsys.texts import Texts
from pasta.collect.losses import Losses
from pasta.collect.shaping.columns import Columns
from pasta.trace_writer import PartWriter

_TEXT_COLUMNS = frozenset({"text", "name", "metricName"})
_REAL_COLUMNS = frozenset({"value"})
_LATEST = 1 << 61
_PROCESS_BITS, _THREAD_BITS = 24, 24
_MASK = (1 << 24) - 1

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Batch:
    """Some rows of one table.

    Args:
        rows: the rows.
        columns: makes columns of values that do not fit.
        table: the table's name, for messages.
    """

    def __init__(self, rows: pa.RecordBatch, columns: Columns, table: str) -> None:
        self.rows = rows
        self.table = table
        self._columns = columns

    def __len__(self) -> int:
        return self.rows.num_rows

    def only(self, keep: Mask) -> Batch:
        """Return the rows where `keep` is true."""
        if keep.all():
            return self
        return Batch(self.rows.filter(pa.array(keep)), self._columns, self.table)

    def starting(self, name: str) -> Batch:
        """Return the rows with the column `name` as their `start`."""
        place = self.rows.schema.get_field_index("start")
        rows = self.rows.set_column(place, "start", self.rows.column(name))
        return Batch(rows, self._columns, self.table)

    def column(self, name: str) -> pa.Array[Any]:
        """Return a column as it was read."""
        return self.rows.column(name)

    def integers(self, name: str, absent: int = 0) -> Integers:
        """Return a column of whole numbers, `absent` in place of null."""
        column = self.rows.column(name)
        if column.null_count == len(column):
            return np.full(len(column), absent, dtype=np.int64)
        filled = column.fill_null(absent) if column.null_count else column
        values: Integers = filled.to_numpy()
        return values

    def known(self, name: str) -> Mask:
        """Return where a column is not null."""
        column = self.rows.column(name)
        if column.null_count in (0, len(column)):
            return np.full(len(column), column.null_count == 0)
        return column.is_valid().to_numpy(zero_copy_only=False)

    def number(self, name: str, kind: pa.DataType) -> pa.Array[Any]:
        """Return a column as numbers of a type; what does not fit is null and counted."""
        column = self.rows.column(name)
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            return self._columns.numbers(column.to_pylist(), kind, f"{self.table}.{name}")

    def ids(self, name: str) -> pa.Array[Any]:
        """Return a column as ids: what is absent or negative is 0."""
        return pa.array(np.maximum(self.integers(name), 0).astype(np.uint64))

    def addresses(self, name: str) -> pa.Array[Any]:
        """Return a column of addresses, of which SQLite stores the highest as negative."""
        return self.rows.column(name).view(pa.uint64())


class Session:
    """What all of an export shares.

    Args:
        export: the tables.
        part: where rows go.
        losses: where is counted what cannot be kept.
        base_ns: added to every time.

    Attributes:
        texts: the export's texts.
        extents: process -> when its first row begins and its last one ends.
        threads: the threads that rows are of, as (pid, tid).
        devices: the devices that rows are of, as (pid, device).
        fallback_pid: the process of rows that name none.
        read: the tables whose rows were asked for, in capitals.
    """

    def __init__(self, export: Export, part: PartWriter, losses: Losses, base_ns: int) -> None:
        self.export = export
        self.part = part
        self.losses = losses
        self.base_ns = base_ns
        self.texts = Texts(export)
        self.extents: dict[int, tuple[int, int]] = {}
        self.threads: set[tuple[int, int]] = set()
        self.devices: set[tuple[int, int]] = set()
        self.fallback_pid = 0
        self.read: set[str] = set()
        self._columns = Columns(losses)

    def batches(self, table: str, *columns: str) -> Iterator[Batch]:
        """Yield the rows of a table, read ahead; absent columns are null."""
        self.read.add(table.upper())
        kinds = {name: _kind(name) for name in columns}
        for rows in ahead(self.export.read(table, kinds)):
            if rows.num_rows:
                yield Batch(rows, self._columns, table)

    def timed(
        self, batch: Batch, what: str, *, never_zero: bool = False, ends: bool = False
    ) -> tuple[Batch, dict[str, pa.Array[Any]]]:
        """Return the rows that have a start, with their `ts` and `dur`.

        Args:
            batch: rows with `start` and `end`.
            what: the rows are, for messages.
            never_zero: whether a start of 0 means that none was recorded.
            ends: whether each has an end, so that one without is counted.
        """
        start, known = batch.integers("start"), batch.known("start")
        sound = known & (start > -_LATEST) & (start < _LATEST)
        if never_zero:
            sound &= start != 0
        if not sound.all():
            self.losses.fault(
                f"{what} without a start time (0, missing or absurd): left out",
                int((~sound).sum()),
            )
            batch = batch.only(sound)
            start = start[sound]
        end, finished = batch.integers("end"), batch.known("end")
        negative = finished & (end < start)
        absurd = finished & (end >= _LATEST)
        for wrong, does in ((negative, "ends before it begins"), (absurd, "ends in a far future")):
            if wrong.any():
                first = int(start[wrong].min()) + self.base_ns
                reason = f"{what} that {does}: kept as unfinished"
                self.losses.fault(reason, int(wrong.sum()), first)
        if ends:
            reason = f"{what} without an end: kept as unfinished"
            self.losses.fault(reason, int((~finished).sum()))
        finished &= ~negative & ~absurd
        ts = pa.array(start + self.base_ns)
        if finished.all():
            return batch, {"ts": ts, "dur": pa.array(end - start)}
        dur = np.where(finished, end - start, 0)
        return batch, {"ts": ts, "dur": pa.array(dur, mask=~finished)}

    def processes(self, batch: Batch) -> Integers:
        """Return the process of each row, as `globalPid` tells."""
        return self._process(batch, "globalPid")

    def host_threads(self, batch: Batch) -> tuple[Integers, Integers]:
        """Return the process and the thread of each row, as `globalTid` tells."""
        pid = self._process(batch, "globalTid")
        tid = batch.integers("globalTid") & _MASK
        pairs = _distinct(pid << _THREAD_BITS | tid)
        self.threads.update((pair >> _THREAD_BITS, pair & _MASK) for pair in pairs)
        return pid, tid

    def _process(self, batch: Batch, name: str) -> Integers:
        pid: Integers = process_of(batch.integers(name))
        unknown = ~batch.known(name)
        if unknown.any():
            self.losses.skip(
                f"row that names no process: taken as of {self.fallback_pid}", int(unknown.sum())
            )
            pid = np.where(unknown, self.fallback_pid, pid)
        return pid

    def append(self, table: str, columns: dict[str, pa.Array[Any]]) -> None:
        """Append rows and take note of what they are of."""
        if not len(columns["pid"]):
            return
        self._note(columns)
        self.part.append(table, pa.RecordBatch.from_pydict(columns))

    def _note(self, columns: dict[str, pa.Array[Any]]) -> None:
        pid: Integers = columns["pid"].to_numpy()
        start = columns["ts"].to_numpy()
        end = start + columns["dur"].fill_null(0).to_numpy() if "dur" in columns else start
        processes = _distinct(pid)
        for process in processes:
            rows = pid == process if len(processes) > 1 else slice(None)
            if "device" in columns:
                devices = _distinct(columns["device"].to_numpy()[rows])
                self.devices.update((process, device) for device in devices)
            first, last = int(start[rows].min()), int(end[rows].max())
            known = self.extents.get(process, (first, last))
            self.extents[process] = min(known[0], first), max(known[1], last)


def constant(value: Any, count: int, kind: pa.DataType) -> pa.Array[Any]:
    """Return a column that holds one value throughout."""
    scalar: Any = pa.scalar(value, kind)
    column: pa.Array[Any] = pa.repeat(scalar, count)
    return column


def no_ids(count: int) -> pa.Array[Any]:
    """Return a column of unknown ids."""
    return constant(0, count, pa.uint64())


def _distinct(values: NDArray[Any]) -> list[int]:
    """Return the distinct values, in any order; fast where there is one."""
    if len(values) and values[0] == values[-1] and (values == values[0]).all():
        return [int(values[0])]
    found: list[int] = pa.array(values).unique().to_pylist()
    return found


def _kind(column: str) -> pa.DataType:
    if column in _TEXT_COLUMNS:
        return pa.string()
    return pa.float64() if column in _REAL_COLUMNS else pa.int64()


def process_of(global_id: Any) -> Any:
    """Return the process in a serialised id of a process or thread."""
    return global_id >> _PROCESS_BITS & _MASK
