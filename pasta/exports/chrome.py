"""Chrome's JSON in the vocabulary of PyTorch's profiler, which many viewers and tools read."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import msgspec

from pasta.exports.counters import Counters
from pasta.exports.exporter import Exported, exporter
from pasta.exports.names import process_numbers, process_texts, thread_texts
from pasta.exports.timeline import DEVICE_TABLES, Event, timeline
from pasta.trace import Trace

TABLES = ("span", "call", "kernel", "copy", "sync", "memory", "metric")
_LEVELS = {"operator": "cpu_op", "function": "python_function", "annotation": "user_annotation"}
_CATEGORIES = {"call": "cuda_runtime", "kernel": "kernel", "sync": "cuda_sync"}
_DEVICES = 20_000_000
_text = msgspec.json.encode


@exporter("chrome")
def export_chrome(trace: Trace, out: str) -> Exported:
    """Write a JSON object of trace events, one a line, times exact to the nanosecond."""
    exported = Exported()
    with Path(out).open("wb") as file:
        file.write(b'{"displayTimeUnit": "ns", "traceEvents": [\n')
        writer = _Writer(trace, file, exported)
        for event in timeline(trace, TABLES, exported):
            writer.write(event)
        file.write(b"\n]}\n")
    return exported


def microseconds(time: int) -> bytes:
    """Return a time in ns as decimal text of microseconds."""
    return b"%d.%03d" % divmod(time, 1000)


class _Writer:
    def __init__(self, trace: Trace, file: IO[bytes], exported: Exported) -> None:
        self._file = file
        self._counters = Counters(exported)
        self._pids = process_numbers(trace)
        self._devices: dict[tuple[int, int, int], int] = {}
        self._separator = b""
        for process, name in process_texts(trace).items():
            self._name("process_name", self._pid(process), 0, name)
        for (rank, pid, tid), name in thread_texts(trace).items():
            self._name("thread_name", self._pid((rank, pid)), tid, name)

    def write(self, event: Event) -> None:
        if event.table in Counters.TABLES:
            self._counter(event)
        else:
            self._slice(event)

    def _pid(self, process: tuple[int, int]) -> int:
        return self._pids.get(process, process[1])

    def _device(self, event: Event) -> int:
        """Return the number under which a device stands: its ordinal, unless processes share it."""
        row = event.row
        process = (row["rank"] or 0, row["pid"] or 0)
        if len(self._pids) < 2:
            return int(row["device"] or 0)
        key = (*process, row["device"] or 0)
        if key not in self._devices:
            self._devices[key] = _DEVICES + len(self._devices)
            name = f"GPU {key[2]} of rank {key[0]} pid {key[1]}"
            self._name("process_name", self._devices[key], 0, name)
        return self._devices[key]

    def _put(self, head: dict[str, Any], times: bytes = b"") -> None:
        self._file.write(self._separator + _text(head)[:-1] + times + b"}")
        self._separator = b",\n"

    def _name(self, kind: str, pid: int, tid: int, name: str) -> None:
        if name:
            self._put({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}})

    def _counter(self, event: Event) -> None:
        found = self._counters.after(event)
        if found is not None:
            pid, value = self._pid(found.process), {"value": found.value}
            head = {"ph": "C", "name": found.name, "pid": pid, "args": value}
            self._put(head, b',"ts":' + microseconds(event.ts))

    def _slice(self, event: Event) -> None:
        row = event.row
        on_device = event.table in DEVICE_TABLES
        pid = self._pid((row["rank"] or 0, row["pid"] or 0))
        place = (
            {"pid": self._device(event), "tid": row["stream"] if row["stream"] is not None else -1}
            if on_device
            else {"pid": pid, "tid": row["tid"] or 0}
        )
        name, category = _named(event)
        head = {
            "ph": "B" if event.end is None else "X",
            "cat": category,
            "name": name,
            **place,
            "args": _arguments(event),
        }
        times = b',"ts":' + microseconds(event.ts)
        if event.end is not None:
            times += b',"dur":' + microseconds(event.end - event.ts)
        self._put(head, times)
        if row.get("correlation") and event.table != "sync":
            arrow = {"cat": "ac2g", "name": "ac2g", "id": row["correlation"], **place}
            end = {"ph": "f", "bp": "e"} if on_device else {"ph": "s"}
            self._put({**end, **arrow}, b',"ts":' + microseconds(event.ts))


def _named(event: Event) -> tuple[str, str]:
    """Return the name and category of a slice."""
    row = event.row
    name = row.get("name") or row.get("kind") or event.table
    if event.table == "copy":
        memset = name == "memset"
        return ("Memset (Device)", "gpu_memset") if memset else (f"Memcpy {name}", "gpu_memcpy")
    if event.table == "span":
        return name, _LEVELS.get(row["level"], "user_annotation")
    return name, _CATEGORIES[event.table]


def _arguments(event: Event) -> dict[str, Any]:
    row = event.row
    found = {
        "correlation": row.get("correlation") or None,
        "External id": row["external_id"] or None,
        "bytes": row.get("bytes"),
    }
    if event.table in DEVICE_TABLES:
        found |= {name: row[name] for name in ("device", "context", "stream")}
    if event.table == "kernel":
        for axis in ("grid", "block"):
            sizes = [row[f"{axis}_{name}"] for name in "xyz"]
            found[axis] = None if None in sizes else sizes
    if row.get("input_shapes"):
        found["Input Dims"] = [_dimensions(text) for text in row["input_shapes"]]
    return {name: value for name, value in found.items() if value is not None}


def _dimensions(text: str | None) -> list[int]:
    return [int(size) for size in (text or "").split("x") if size.isdecimal()]
