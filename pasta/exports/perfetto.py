"""Perfetto's protobuf traces: tracks of threads, streams and counters, flows from calls to kernels.

Field numbers after Perfetto's published `.proto` files. All packets are of one sequence, whose first
packet clears its state, so that names and texts are interned once; packets are in order of time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from pasta.exports.columns import mapped
from pasta.exports.counters import Counters
from pasta.exports.exporter import Exported, exporter
from pasta.exports.lanes import Events
from pasta.exports.names import flow_numbers
from pasta.exports.perfetto_tracks import CLEARED, NEEDS, SEQUENCE, Tracks, packet
from pasta.exports.timeline import DEVICE_TABLES, FOREVER, Slice, timeline
from pasta.exports.wire import bytes_field, number_field, text_field
from pasta.exports.wire_columns import (
    Part,
    Present,
    constant,
    double_fields,
    fixed_fields,
    joined,
    messages,
    number_fields,
    unsigned_fields,
)
from pasta.trace import Trace

TABLES = ("span", "call", "kernel", "copy", "sync", "memory", "metric")
SLICES = TABLES[:5]
_NAMED_CATEGORIES = {
    "call": "cuda_runtime",
    "copy": "gpu_memcpy",
    "operator": "cpu_op",
    "function": "python_function",
}
_CATEGORIES, _NAMES, _ARGUMENTS, _TEXTS = 1, 2, 3, 29
_BEGIN, _END, _COUNTER = 1, 2, 4
_ARGUMENTS_OF = {
    "span": ("external_id",),
    "call": ("correlation", "external_id", "bytes"),
    "kernel": ("device", "context", "stream", "correlation", "external_id"),
    "copy": ("device", "context", "stream", "correlation", "external_id", "bytes"),
    "sync": ("device", "context", "stream", "correlation"),
}


@exporter("perfetto")
def export_perfetto(trace: Trace, out: str) -> Exported:
    """Write spans, calls, device work, live memory and metrics for the Perfetto UI."""
    exported = Exported()
    writer = _Writer(trace, exported)
    with Path(out).open("wb") as file:
        file.write(packet(number_field(13, CLEARED) + number_field(87, 1)))
        for found in timeline(trace, TABLES, exported):
            file.writelines(writer.packets(found))
        file.writelines(writer.rest())
    return exported


class _Packets:
    """Packets of a slice of time, put in order when all are there."""

    def __init__(self) -> None:
        self._packets: list[pa.Array[Any]] = []
        self._times: list[NDArray[np.int64]] = []
        self._order: list[NDArray[np.int64]] = []

    def add(
        self, times: NDArray[np.int64], order: NDArray[np.int64], kind: int, event: list[Part]
    ) -> None:
        """Add packets of track events of one kind; `order` tells those of one time apart."""
        rows = len(times)
        parts = [
            number_fields(8, times),
            constant(number_field(13, NEEDS), rows),
            *messages(11, [constant(number_field(9, kind), rows), *event]),
            constant(SEQUENCE, rows),
        ]
        self._packets.append(joined(messages(1, parts)))
        self._times.append(times)
        self._order.append(order)

    def content(self) -> bytes | memoryview:
        """Return all packets in order of time."""
        if not self._packets:
            return b""
        order = np.lexsort((np.concatenate(self._order), np.concatenate(self._times)))
        every = pa.concat_arrays(self._packets)
        return memoryview(cast(pa.Buffer, every.take(pa.array(order, pa.int64())).buffers()[2]))


class _Writer:
    def __init__(self, trace: Trace, exported: Exported) -> None:
        self._tracks = Tracks(trace)
        self._counters = Counters(exported)
        self._iids: dict[tuple[int, str], int] = {}
        self._new: list[bytes] = []
        self._flows_from = "call" if trace.has("call") else "span"

    def packets(self, found: Slice) -> list[bytes | memoryview]:
        """Return the packets of a slice of time: what it is the first to use, then its events."""
        events = _Packets()
        slices = {table: found[table] for table in SLICES if table in found}
        if slices:
            self._slices(slices, events)
        for values in self._counters.values(found):
            self._values(values, events)
        return [*self._tracks.described(), self._interned(), events.content()]

    def rest(self) -> list[bytes | memoryview]:
        """Return the ends of what is open."""
        events = _Packets()
        self._ends(self._tracks.lanes.ended(FOREVER - 1), events)
        return [events.content()]

    def _slices(self, slices: Slice, events: _Packets) -> None:
        tracks = np.concatenate([self._tracks.numbers(t, rows) for t, rows in slices.items()])
        starts, ends = (
            np.concatenate([rows[name].to_numpy() for rows in slices.values()])
            for name in ("ts", "end")
        )
        order = np.lexsort((-ends, starts))
        begun, ended = self._tracks.lanes.lay(tracks[order], starts[order], ends[order], order)
        uuids, turns = np.empty(len(order), np.uint64), np.empty_like(order)
        uuids[order], turns[order] = self._tracks.uuids(begun.lanes), begun.turns
        first = 0
        for table, rows in slices.items():
            last = first + rows.height
            event = [unsigned_fields(11, uuids[first:last]), *self._described(table, rows)]
            events.add(starts[first:last], turns[first:last], _BEGIN, event)
            first = last
        self._ends(ended, events)

    def _ends(self, ended: Events, events: _Packets) -> None:
        if len(ended.times):
            uuids = unsigned_fields(11, self._tracks.uuids(ended.lanes))
            events.add(ended.times, ended.turns, _END, [uuids])

    def _described(self, table: str, rows: pl.DataFrame) -> list[Part]:
        """Return what names, explains and links slices."""
        level = (
            rows["level"] if table == "span" else pl.Series([table]).new_from_index(0, rows.height)
        )
        name = rows["name" if "name" in rows.columns else "kind"]
        title = _copy_title if table == "copy" else lambda text: text or table
        parts = [
            number_fields(3, self._numbers(_CATEGORIES, level, _category)),
            number_fields(10, self._numbers(_NAMES, name, title)),
        ]
        for argument in _ARGUMENTS_OF[table]:
            column = rows[argument]
            values = (column.fill_null(0) if column.null_count() else column).to_numpy()
            unsigned = values.dtype == np.uint64
            field = unsigned_fields(3, values) if unsigned else number_fields(4, values)
            parts += self._argument(argument, field, values != 0)
        for argument, texts, written in _texts(table, rows):
            numbers = self._numbers(_TEXTS, texts, written)
            field = number_fields(17, numbers)
            parts += self._argument(argument, field, texts.is_not_null().to_numpy())
        return [*parts, *self._flow(table, rows)]

    def _argument(self, name: str, field: Part, present: Present) -> list[Part]:
        iid = number_field(1, self._iid(_ARGUMENTS, name))
        return messages(4, [constant(iid, len(field.sizes)), field], present)

    def _flow(self, table: str, rows: pl.DataFrame) -> list[Part]:
        """Return the flow that slices are part of, one for each call (or operator)."""
        if table != self._flows_from and table not in DEVICE_TABLES:
            return []
        link = "correlation" if self._flows_from == "call" else "external_id"
        links = rows[link].to_numpy()
        flows = flow_numbers(links, self._tracks.processes(rows))
        return [fixed_fields(47, flows, links != 0)]

    def _values(self, values: pl.DataFrame, events: _Packets) -> None:
        column = values["value"].to_numpy()
        value = double_fields(44, column) if column.dtype.kind == "f" else number_fields(30, column)
        event = [unsigned_fields(11, self._tracks.counters(values)), value]
        events.add(values["ts"].to_numpy(), np.arange(values.height), _COUNTER, event)

    def _numbers(
        self, kind: int, texts: pl.Series, written: Callable[[str], str]
    ) -> NDArray[np.int64]:
        """Return the number under which what is written of each text is known."""
        return mapped(texts, lambda text: self._iid(kind, written(text)), pl.Int64).to_numpy()

    def _iid(self, kind: int, text: str) -> int:
        iid = self._iids.get((kind, text))
        if iid is None:
            iid = self._iids[kind, text] = len(self._iids) + 1
            entry = number_field(1, iid) + text_field(2, text)
            self._new.append(bytes_field(kind, entry))
        return iid

    def _interned(self) -> bytes:
        """Return a packet of the texts that are new."""
        new, self._new = self._new, []
        return packet(number_field(13, NEEDS) + bytes_field(12, b"".join(new))) if new else b""


def _category(level: str) -> str:
    """Return the category of a table or of spans of a level."""
    return _NAMED_CATEGORIES.get(level, level) or "annotation"


def _copy_title(kind: str) -> str:
    return "Memset" if kind == "memset" else f"Memcpy {kind or 'copy'}"


def _texts(table: str, rows: pl.DataFrame) -> list[tuple[str, pl.Series, Callable[[str], str]]]:
    """Return the arguments that are texts, null where they are not known, and how they are written."""
    if table == "kernel":
        sizes = {a: pl.format("{}x{}x{}", *(f"{a}_{n}" for n in "xyz")) for a in ("grid", "block")}
        return [(a, rows.select(size).to_series(), str) for a, size in sizes.items()]
    if table == "span":
        inputs = pl.col("input_shapes")
        shapes = pl.when(inputs.list.len() > 0).then(inputs.list.join("\n"))
        return [("shapes", rows.select(shapes).to_series(), _shapes)]
    return []


def _shapes(inputs: str) -> str:
    return "; ".join(shape or "-" for shape in inputs.split("\n"))
