"""Chrome's JSON in the vocabulary of PyTorch's profiler, which many viewers and tools read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from pasta.exports.columns import mapped, numbered
from pasta.exports.counters import Counters
from pasta.exports.exporter import Exported, exporter
from pasta.exports.json_text import content, known, members, microseconds, quoted, text
from pasta.exports.names import flow_numbers, process_numbers, process_texts, thread_texts
from pasta.exports.timeline import DEVICE_TABLES, FOREVER, Slice, timeline
from pasta.trace import Trace

TABLES = ("span", "call", "kernel", "copy", "sync", "memory", "metric")
_SLICES = TABLES[:5]
_LEVELS = {"operator": "cpu_op", "function": "python_function", "annotation": "user_annotation"}
_CATEGORIES = {"call": "cuda_runtime", "kernel": "kernel", "sync": "cuda_sync"}
_DEVICES = 20_000_000
_ARGUMENTS = {
    "correlation": "correlation",
    "External id": "external_id",
    "bytes": "bytes",
    "device": "device",
    "context": "context",
    "stream": "stream",
}
_IDS = frozenset({"correlation", "external_id"})
_BETWEEN = b",\n"


@exporter("chrome")
def export_chrome(trace: Trace, out: str) -> Exported:
    """Write a JSON object of trace events, one a line, times exact to the nanosecond."""
    exported = Exported()
    writer = _Writer(trace, exported)
    with Path(out).open("wb") as file:
        file.write(b'{"displayTimeUnit": "ns", "traceEvents": [')
        separator = b"\n"
        for found in timeline(trace, TABLES, exported):
            for text in writer.events(found):
                file.write(separator)
                file.write(text[len(_BETWEEN) :])
                separator = _BETWEEN
        file.write(b"\n]}\n")
    return exported


class _Writer:
    """Makes text of events, `_BETWEEN` before each."""

    def __init__(self, trace: Trace, exported: Exported) -> None:
        self._counters = Counters(exported)
        self._pids = process_numbers(trace)
        self._positions = {process: place for place, process in enumerate(self._pids)}
        self._devices: dict[tuple[int, int, int], int] = {}
        self._names: list[bytes] = []
        for process, name in process_texts(trace).items():
            self._name("process_name", self._pids[process], 0, name)
        for (rank, pid, tid), name in thread_texts(trace).items():
            self._name("thread_name", self._pids.get((rank, pid), pid), tid, name)

    def events(self, found: Slice) -> Iterable[bytes | memoryview]:
        """Return the text of a slice of time, what it is the first to use before its events."""
        texts = [self._slices(table, found[table]) for table in _SLICES if table in found]
        texts += [self._values(values) for values in self._counters.values(found)]
        names, self._names = self._names, []
        if names:
            yield b"".join(names)
        if texts:
            yield content(pl.concat(texts).sort("ts", maintain_order=True)["text"])

    def _name(self, kind: str, pid: int, tid: int, name: str) -> None:
        if name:
            event = {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}
            self._names.append(_BETWEEN + msgspec.json.encode(event))

    def _device(self, key: tuple[int, int, int | None]) -> int:
        """Return the number under which a device stands: its ordinal, unless processes share it."""
        rank, pid, device = *key[:2], key[2] or 0
        if len(self._pids) < 2:
            return device
        place = (rank, pid, device)
        if place not in self._devices:
            self._devices[place] = _DEVICES + len(self._devices)
            name = f"GPU {device} of rank {rank} pid {pid}"
            self._name("process_name", self._devices[place], 0, name)
        return self._devices[place]

    def _values(self, values: pl.DataFrame) -> pl.DataFrame:
        pids = numbered(values, ("rank", "pid"), self._pids.__getitem__)
        return values.select(
            "ts",
            text(
                *(',\n{"ph":"C","name":', quoted(values["name"]), ',"pid":', pl.Series(pids)),
                *(',"args":{"value":', pl.col("value"), '},"ts":', microseconds(pl.col("ts")), "}"),
            ).alias("text"),
        )

    def _slices(self, table: str, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the events of slices, each with the arrow that begins or ends at it."""
        name, category = _described(table, rows)
        rows = rows.with_columns(
            *self._place(table, rows), name.alias("name"), category.alias("category")
        )
        endless = pl.col("end") == FOREVER
        lasting = pl.when(~endless).then(microseconds(pl.col("end") - pl.col("ts")))
        event = text(
            ',\n{"ph":"',
            pl.when(endless).then(pl.lit("B")).otherwise(pl.lit("X")),
            *('","cat":"', pl.col("category"), '","name":', pl.col("name")),
            *(',"pid":', pl.col("place"), ',"tid":', pl.col("line")),
            *(',"args":{', _arguments(table, rows).str.strip_prefix(","), '},"ts":'),
            *(microseconds(pl.col("ts")), members({"dur": lasting}), "}"),
        )
        arrow = self._arrows(table, rows) if "correlation" in rows.columns else pl.lit("")
        return rows.select("ts", text(event, arrow).alias("text"))

    def _place(self, table: str, rows: pl.DataFrame) -> tuple[pl.Series, pl.Expr]:
        """Return process and thread under which events stand; for device work device and stream."""
        if table in DEVICE_TABLES:
            places = numbered(rows, ("rank", "pid", "device"), self._device)
            line = pl.col("stream").fill_null(-1)
        else:
            places = numbered(rows, ("rank", "pid"), self._pids.__getitem__)
            line = pl.col("tid")
        return pl.Series("place", places), line.alias("line")

    def _arrows(self, table: str, rows: pl.DataFrame) -> pl.Expr:
        """Return the arrow from a call to its work, empty where there is none."""
        if table == "sync":
            return pl.lit("")
        places = numbered(rows, ("rank", "pid"), self._positions.__getitem__)
        flows = pl.Series(flow_numbers(rows["correlation"].to_numpy(), places))
        end = '"f","bp":"e"' if table in DEVICE_TABLES else '"s"'
        arrow = text(
            *(f',\n{{"ph":{end},"cat":"ac2g","name":"ac2g","id":', flows),
            *(',"pid":', pl.col("place"), ',"tid":', pl.col("line")),
            *(',"ts":', microseconds(pl.col("ts")), "}"),
        )
        return pl.when(pl.col("correlation") != 0).then(arrow).otherwise(pl.lit(""))


def _described(table: str, rows: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
    """Return the names, as JSON writes them, and the categories of slices."""
    column = rows["name" if "name" in rows.columns else "kind"]
    names = quoted(column, _copy_title if table == "copy" else lambda text: text or table)
    if table == "copy":
        return names, mapped(column, _copy_category, pl.String)
    if table == "span":
        return names, mapped(rows["level"], _span_category, pl.String)
    return names, pl.repeat(_CATEGORIES[table], rows.height, eager=True)


def _copy_title(kind: str) -> str:
    return "Memset (Device)" if kind == "memset" else f"Memcpy {kind or 'copy'}"


def _copy_category(kind: str) -> str:
    return "gpu_memset" if kind == "memset" else "gpu_memcpy"


def _span_category(level: str) -> str:
    return _LEVELS.get(level, "user_annotation")


def _arguments(table: str, rows: pl.DataFrame) -> pl.Expr:
    found = {
        name: known(column) if column in _IDS else pl.col(column)
        for name, column in _ARGUMENTS.items()
        if column in rows.columns
    }
    if table == "kernel":
        for axis in ("grid", "block"):
            x, y, z = (pl.col(f"{axis}_{name}") for name in "xyz")
            found[axis] = text("[", x, ",", y, ",", z, "]")
    if table == "span":
        inputs = pl.col("input_shapes")
        shapes = rows.select(pl.when(inputs.list.len() > 0).then(inputs.list.join("\n")))
        found["Input Dims"] = pl.lit(
            mapped(shapes.to_series(), _dimensions, pl.String, unknown=None)
        )
    return members(found)


def _dimensions(inputs: str | None) -> str | None:
    """Return the shapes of inputs as the profiler writes them, of lists of tensors as lists."""
    if inputs is None:
        return None
    return msgspec.json.encode([_shape(text) for text in inputs.split("\n")]).decode()


def _shape(text: str) -> list[Any]:
    if ";" in text:
        return [_shape(part) for part in text.split(";")]
    return [int(size) for size in text.split("x") if size.isdecimal()]
