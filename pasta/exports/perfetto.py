"""Perfetto's protobuf traces: tracks of threads, streams and counters, flows from calls to kernels.

Field numbers after Perfetto's published `.proto` files.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import IO, Any

from pasta.exports.counters import Counters
from pasta.exports.exporter import Exported, exporter
from pasta.exports.lanes import FOREVER, Lanes
from pasta.exports.names import process_numbers, process_texts, thread_texts
from pasta.exports.timeline import DEVICE_TABLES, Event, timeline
from pasta.exports.wire import bytes_field, double_field, fixed_field, number_field, text_field
from pasta.trace import Trace

TABLES = ("span", "call", "kernel", "copy", "sync", "memory", "metric")
CATEGORIES = {"call": "cuda_runtime", "kernel": "kernel", "copy": "gpu_memcpy", "sync": "sync"}
LEVELS = {"operator": "cpu_op", "function": "python_function"}
_CATEGORIES, _NAMES, _ARGUMENTS = 1, 2, 3
_BEGIN, _END, _COUNTER = 1, 2, 4
_SEQUENCE = number_field(10, 1)
_CLEARED, _NEEDS = 1, 2
_BYTES_UNIT = 3
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
    with Path(out).open("wb") as file:
        writer = _Writer(trace, file, exported)
        for event in timeline(trace, TABLES, exported):
            writer.write(event)
        writer.finish()
    return exported


class _Writer:
    def __init__(self, trace: Trace, file: IO[bytes], exported: Exported) -> None:
        self._file = file
        self._counters = Counters(exported)
        self._pids = process_numbers(trace)
        self._processes = process_texts(trace)
        self._threads = thread_texts(trace)
        self._uuids: dict[tuple[Any, ...], int] = {}
        self._number = count(1)
        self._lanes: dict[tuple[Any, ...], Lanes] = {}
        self._lane_tracks: dict[tuple[tuple[Any, ...], int], int] = {}
        self._iids: dict[tuple[int, str], int] = {}
        self._flows: dict[tuple[int, int, int], int] = {}
        self._from = "call" if trace.has("call") else "span"
        self._packet(number_field(13, _CLEARED))

    def write(self, event: Event) -> None:
        if event.table in Counters.TABLES:
            self._value(event)
        else:
            self._slice(event)

    def finish(self) -> None:
        for (key, lane), track in self._lane_tracks.items():
            for end in reversed(self._lanes[key].open[lane]):
                if end < FOREVER:
                    self._event(end, track, _END)

    def _packet(self, content: bytes) -> None:
        self._file.write(bytes_field(1, content + _SEQUENCE))

    def _event(
        self, ts: int, track: int, kind: int, more: bytes = b"", interned: bytes = b""
    ) -> None:
        body = number_field(9, kind) + number_field(11, track) + more
        new = bytes_field(12, interned) if interned else b""
        self._packet(number_field(8, ts) + number_field(13, _NEEDS) + new + bytes_field(11, body))

    def _slice(self, event: Event) -> None:
        row, table = event.row, event.table
        process = (row["rank"] or 0, row["pid"] or 0)
        if table in DEVICE_TABLES:
            key: tuple[Any, ...] = (
                *process,
                "device",
                row["device"],
                row["context"],
                row["stream"],
            )
        else:
            key = (*process, "thread", row["tid"] or 0)
        lane, ended = self._lanes.setdefault(key, Lanes()).place(event.ts, event.end)
        track = self._lane_tracks.get((key, lane))
        if track is None:
            track = self._lane_tracks[key, lane] = self._track(key, lane)
        for end in ended:
            self._event(end, track, _END)
        self._event(event.ts, track, _BEGIN, *self._described(event))
        if event.end == event.ts:
            self._event(event.ts, track, _END)

    def _described(self, event: Event) -> tuple[bytes, bytes]:
        """Return what names and explains a slice, and the texts that are new in it."""
        row, table = event.row, event.table
        new: list[bytes] = []
        name = row.get("name") or row.get("kind") or table
        if table == "copy":
            name = "Memset" if name == "memset" else f"Memcpy {name}"
        category = CATEGORIES.get(table) or LEVELS.get(row["level"], row["level"] or "annotation")
        body = number_field(3, self._interned(_CATEGORIES, category, new))
        body += number_field(10, self._interned(_NAMES, name, new))
        for argument in _ARGUMENTS_OF[table]:
            if row[argument]:
                body += self._argument(argument, number_field(4, row[argument]), new)
        texts = {}
        if table == "kernel":
            texts = {axis: shape(row, axis) for axis in ("grid", "block")}
        elif row.get("input_shapes"):
            texts = {"shapes": "; ".join(text or "-" for text in row["input_shapes"])}
        for argument, text in texts.items():
            if text:
                body += self._argument(argument, text_field(6, text), new)
        return body + self._flow(event), b"".join(new)

    def _argument(self, name: str, value: bytes, new: list[bytes]) -> bytes:
        iid = number_field(1, self._interned(_ARGUMENTS, name, new))
        return bytes_field(4, iid + value)

    def _flow(self, event: Event) -> bytes:
        """Return the flow that a slice is part of, one for each call (or operator)."""
        row = event.row
        if event.table != self._from and event.table not in DEVICE_TABLES:
            return b""
        link = row["correlation" if self._from == "call" else "external_id"]
        if not link:
            return b""
        key = (row["rank"] or 0, row["pid"] or 0, link)
        return fixed_field(47, self._flows.setdefault(key, len(self._flows) + 1))

    def _interned(self, kind: int, text: str, new: list[bytes]) -> int:
        iid = self._iids.get((kind, text))
        if iid is None:
            iid = self._iids[kind, text] = len(self._iids) + 1
            new.append(bytes_field(kind, number_field(1, iid) + text_field(2, text)))
        return iid

    def _value(self, event: Event) -> None:
        found = self._counters.after(event)
        if found is not None:
            track = self._counter(found.process, found.name, found.unit)
            value = found.value
            content = number_field(30, value) if isinstance(value, int) else double_field(44, value)
            self._event(event.ts, track, _COUNTER, content)

    def _counter(self, process: tuple[int, int], name: str, unit: str) -> int:
        key = (*process, "counter", name, unit)
        if key not in self._uuids:
            about = number_field(3, _BYTES_UNIT) if unit == "bytes" else text_field(6, unit)
            parent = number_field(5, self._process(process))
            self._describe(key, text_field(2, name) + parent + bytes_field(8, about))
        return self._uuids[key]

    def _process(self, process: tuple[int, int]) -> int:
        if process not in self._uuids:
            pid = number_field(1, self._pids.get(process, process[1]))
            name = text_field(6, self._processes.get(process) or f"process {process[1]}")
            self._describe(process, bytes_field(3, pid + name))
        return self._uuids[process]

    def _track(self, key: tuple[Any, ...], lane: int) -> int:
        process = key[:2]
        parent = number_field(5, self._process(process))
        if key[2] == "thread" and not lane:
            pid, tid = self._pids.get(process, process[1]), key[3]
            name = self._threads.get((*process, tid)) or f"thread {tid}"
            thread = number_field(1, pid) + number_field(2, tid) + text_field(5, name)
            return self._describe((*key, lane), parent + bytes_field(4, thread))
        if key[2] == "thread":
            name = f"thread {key[3]}"
        else:
            stream = "all streams" if key[5] is None else f"stream {key[5]}"
            name = f"GPU {key[3]} {stream}" + (f" context {key[4]}" if key[4] else "")
        name += f" ({lane + 1})" if lane else ""
        return self._describe((*key, lane), text_field(2, name) + parent)

    def _describe(self, key: tuple[Any, ...], content: bytes) -> int:
        uuid = self._uuids[key] = next(self._number)
        self._packet(bytes_field(60, number_field(1, uuid) + content))
        return uuid


def shape(row: dict[str, Any], axis: str) -> str:
    """Return the size of a grid or block as `4x2x1`; empty: not known."""
    sizes = [row[f"{axis}_{name}"] for name in "xyz"]
    return "" if None in sizes else "x".join(map(str, sizes))
