"""Work of one process on AMD's GPUs as rows of a trace, from columns of whatever format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pasta.collect.losses import Losses
from pasta.collect.shaping.collectives import is_communication, operation_of_kernel
from pasta.collect.shaping.grids import blocks
from pasta.collect.shaping.intervals import intervals
from pasta.collect.shaping.own_ids import OwnIds
from pasta.collect.shaping.sizes import not_negative
from pasta.schema import arrow_schema
from pasta.trace_writer import PartWriter

Raw: TypeAlias = "Mapping[str, pa.Array[Any]]"
"""Columns by name: those of a trace's table, with `start` and `end` in place of `ts` and `dur`."""

_AXES = "xyz"
_AGAIN = "kernel with the dispatch id of another: given an id of its own"
_ZERO_WHERE_UNKNOWN = frozenset({"context"})


class RocmRows:
    """Appends rows of one process.

    Args:
        part: where they go.
        losses: where what cannot be kept is counted.
        pid: the process.
    """

    def __init__(self, part: PartWriter, losses: Losses, pid: int) -> None:
        self.pid = pid
        self._part = part
        self._losses = losses
        self._threads: set[int] = set()
        self._launch_ids = OwnIds(losses, _AGAIN)

    def kernels(self, raw: Raw) -> None:
        """Append rows of `kernel`, and rows of `collective` for those that communicate.

        Args:
            raw: beside columns of `kernel`: `threads_x`, `threads_y` and `threads_z` for the grid
                in threads, and `shared_bytes` for all LDS of a block; `OwnIds` says what
                becomes of a `launch_id`; `name` may be a dictionary.
        """
        columns = dict(raw)
        columns["launch_id"] = self._launch_ids.of(raw["launch_id"])
        shared, static = raw.get("shared_bytes"), raw.get("static_shared")
        if shared is not None and static is not None:
            columns.update(_shared(shared, static))
        for axis in _AXES:
            threads, block = columns.pop(f"threads_{axis}", None), columns.get(f"block_{axis}")
            if threads is not None and block is not None:
                columns[f"grid_{axis}"] = blocks(threads, block)
        rows = self._timed("kernel", columns)
        self._part.append("kernel", rows)
        self._append_collectives(rows)

    def calls(self, raw: Raw) -> None:
        """Append rows of `call`."""
        self._part.append("call", self._timed("call", raw))

    def spans(self, raw: Raw) -> None:
        """Append rows of `span`, which get their ids and parents when the part is finished."""
        level = pa.repeat(pa.scalar("annotation"), len(raw["start"]))
        self._part.append("span", self._timed("span", {**raw, "level": level}))

    def copies(self, raw: Raw) -> None:
        """Append rows of `copy`."""
        self._part.append("copy", self._timed("copy", raw))

    def allocations(self, raw: Raw) -> None:
        """Append rows of `memory`, whose objects are told apart when the part is finished.

        What is allocated is there when its call ends, what is released is gone when it starts.
        """
        released = pc.equal(raw["event"], pa.scalar("release"))
        moments = pc.if_else(released, raw["start"], raw["end"])
        rows = self._timed("memory", {**raw, "start": moments, "end": moments})
        self._part.append("memory", rows.drop_columns(["dur"]))

    def metrics(self, raw: Raw) -> None:
        """Append rows of `metric`."""
        self._part.append("metric", self._timed("metric", raw))

    def finish(self) -> None:
        """Append a row of `thread` for each thread that was met."""
        threads = sorted(self._threads)
        columns = {"pid": [self.pid] * len(threads), "tid": threads}
        if threads:
            schema = pa.schema([("pid", pa.int64()), ("tid", pa.int64())])
            self._part.append("thread", pa.table(columns, schema))

    def _timed(self, table: str, raw: Raw) -> pa.Table:
        """Return the rows that have a time, with all ids and the process.

        Where there are no times at all, as of counters without a timeline, all rows stay.
        """
        columns = {name: column for name, column in raw.items() if name not in ("start", "end")}
        count = len(next(iter(raw.values())))
        timed = np.ones(count, dtype=bool)
        if "start" in raw:
            timed, ts, dur = intervals(raw["start"], raw["end"], self._losses, table)
            columns.update(ts=ts, dur=dur)
        size = columns.get("bytes")
        if size is not None:
            columns["bytes"] = not_negative(size, self._losses)
        columns["pid"] = pa.repeat(pa.scalar(self.pid, pa.int64()), count)
        for field in arrow_schema(table):
            name = field.name
            if name in columns:
                columns[name] = _filled(columns[name], field)
            elif _is_id(field) or name in _ZERO_WHERE_UNKNOWN:
                columns[name] = pa.repeat(pa.scalar(0, field.type), count)
        if "tid" in columns:
            self._threads.update(filter(None, pc.unique(columns["tid"]).to_pylist()))
        rows = pa.table(columns)
        return rows if timed.all() else rows.filter(pa.array(timed))

    def _append_collectives(self, kernels: pa.Table) -> None:
        names: Any = kernels["name"].combine_chunks()
        if not pa.types.is_dictionary(names.type):
            names = names.dictionary_encode()
        distinct = [name or "" for name in names.dictionary.to_pylist()]
        communicates = [is_communication(name) for name in distinct]
        if not any(communicates):
            return
        wanted = pa.array(communicates, pa.bool_()).take(names.indices)
        told = pa.array([operation_of_kernel(name) for name in distinct], pa.string())
        operations = told.take(names.indices).filter(wanted)
        same = ["pid", "device", "ts", "dur", "launch_id", "correlation", "stream"]
        chosen = kernels.select(same).filter(wanted)
        unknown = pa.repeat("", len(operations))
        rows = {
            **{name: chosen[name].combine_chunks() for name in same},
            "communicator": unknown,
            "operation": operations,
            "dtype": unknown,
            "source": pa.repeat("name", len(operations)),
        }
        self._part.append("collective", pa.table(rows))


def chosen(raw: Raw, kept: NDArray[np.bool_]) -> dict[str, pa.Array[Any]]:
    """Return those rows of columns that are kept."""
    if kept.all():
        return dict(raw)
    mask = pa.array(kept)
    return {name: column.filter(mask) for name, column in raw.items()}


def fitting(values: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return sizes, of i64, as `kind`; what is negative or has more than 32 bits is null."""
    inside = pc.and_(pc.greater_equal(values, pa.scalar(0)), pc.less(values, pa.scalar(1 << 32)))
    sizes: pa.Array[Any] = pc.if_else(inside, values, pa.scalar(None, values.type)).cast(kind)
    return sizes


def _shared(shared: pa.Array[Any], static: pa.Array[Any]) -> dict[str, pa.Array[Any]]:
    """Split the LDS of launches into what was compiled in and what was asked for at launch."""
    both = pc.and_(shared.is_valid(), static.is_valid())
    whole, compiled = (each.fill_null(0).cast(pa.int64()) for each in (shared, static))
    known = pc.and_(both, pc.greater_equal(whole, compiled))
    asked = pc.if_else(known, pc.subtract(whole, compiled), None)
    return {
        "dynamic_shared": asked.cast(pa.uint32()),
        "static_shared": pc.if_else(known, compiled, None).cast(pa.uint32()),
        "shared_bytes": pc.if_else(known, None, shared),
    }


def _filled(column: pa.Array[Any], field: pa.Field[Any]) -> pa.Array[Any]:
    if pa.types.is_dictionary(column.type):
        return column
    typed = column if column.type == field.type else column.cast(field.type)
    zero = _is_id(field) or field.name in _ZERO_WHERE_UNKNOWN
    return typed.fill_null(0) if zero and typed.null_count else typed


def _is_id(field: pa.Field[Any]) -> bool:
    return pa.types.is_uint64(field.type) and field.name.endswith(("_id", "correlation"))
