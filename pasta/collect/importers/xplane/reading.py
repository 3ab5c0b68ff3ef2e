"""Rows of pasta's tables from the planes of an XSpace."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pasta.collect.containers.protobuf_fields import MessageFile, Place, WireError, text
from pasta.collect.demangle import demangled
from pasta.collect.importer import Imported
from pasta.collect.importers.xplane.details import (
    copy_kind,
    details,
    device_of,
    launch_shape,
    whole,
)
from pasta.collect.importers.xplane.planes import (
    SPACE_HOSTS,
    SPACE_PLANES,
    Event,
    Line,
    Plane,
    Stats,
)
from pasta.collect.losses import Losses
from pasta.collect.shaping.rows import Rows
from pasta.collect.shaping.span_parents import SpanParents
from pasta.schema import arrow_schema
from pasta.trace_writer import PartWriter

_PS = 1000
_LATEST = 1 << 61
_U32_MAX = (1 << 32) - 1
_U64_MAX = (1 << 64) - 1
_PLANE_NAME = 2
_ENVIRONMENT = "Task Environment"
_METADATA = "/host:metadata"
_TPU_WORK = ("XLA Ops", "Async XLA Ops", "Sparse Core Ops")
_DERIVED = frozenset(
    [
        *("Steps", "XLA Modules", "XLA Ops", "Async XLA Ops", "XLA TraceMe"),
        *("TensorFlow Ops", "TensorFlow Name Scope", "Framework Ops", "Framework Name Scope"),
        *("Launch Stats", "Source code", "Source Code", "Host Offload Ops"),
        *("Sparse Core Steps", "Sparse Core Modules"),
    ]
)
_VENDORS = {"Nvidia": "nvidia", "AMD": "amd", "Intel": "intel"}
_COPY_DETAILS = ("memcpy_details", "Memset_details", "memset_details")
_MEMORY_DETAILS = ("memalloc_details", "MemFree_details", "MemoryResidency_details")

_BROKEN = "messages that cannot be read: left out"
_AGGREGATED = "events that stand for several, without times: left out"
_NO_TIME = "events at no time that can be: left out"
_NO_DURATION = "events with a negative duration: kept as unfinished"
_NO_NAME = "events without a name: kept"
_DERIVED_LINE = "events of line '{}', which the profiler derives from others: left out"
_OTHER_PLANE = "plane '{}', which is of no thread and no device: left out"
_MEMORY = "allocations and releases on the device, of which the profile has no address: left out"


class Reading:
    """Reads one file.

    Args:
        file: the file.
        part: where the rows go.
        losses: where what is left out is counted.

    Attributes:
        planes: how many planes were read.
        kept: how many events were read.
    """

    def __init__(self, file: MessageFile, part: PartWriter, losses: Losses) -> None:
        self.planes = 0
        self.kept = 0
        self._file = file
        self._part = part
        self._losses = losses
        self._base = self._launches = 0
        self._first: int | None = None
        self._last: int | None = None
        self._hosts: list[str] = []
        self._threads: dict[int, str] = {}
        self._devices: dict[int, dict[str, Any]] = {}
        host = ("pid", "tid", "ts", "dur")
        device = ("pid", "device", "ts", "dur", "correlation", "context", "stream", "external_id")
        self._spans = Rows(part, "span", *host, "level", "name", "external_id", "stack_id")
        self._calls = Rows(part, "call", *host, "name", "correlation", "external_id", "stack_id")
        self._kernels = Rows(
            *(part, "kernel", *device, "launch_id", "graph_id", "graph_node_id", "name"),
            *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
            *("registers", "static_shared", "dynamic_shared"),
        )
        self._copies = Rows(part, "copy", *device, "kind", "source", "destination", "bytes")

    def read(self) -> None:
        """Append the events of all planes."""
        places: list[int | bytes | Place] = []
        try:
            for number, _, value in self._file.fields(self._file.whole):
                if number == SPACE_PLANES:
                    places.append(value)
                elif number == SPACE_HOSTS and isinstance(value, bytes):
                    self._hosts.append(text(value))
        except WireError:
            self._losses.fault(_BROKEN)
        names = [self._name(place) for place in places]
        for name, place in zip(names, places, strict=True):
            if name == _ENVIRONMENT:
                stats = Plane(self._file, place).stats
                self._base = whole(stats.get("profile_start_time"), _LATEST) or 0
        for place in places:
            self._read_plane(Plane(self._file, place))

    def finish(self) -> Imported:
        """Append what is held back, and what is known of threads and devices."""
        for rows in (self._spans, self._calls, self._kernels, self._copies):
            rows.flush()
        process = {
            "pid": 0,
            "host": ", ".join(self._hosts) or None,
            "started": self._first,
            "ended": self._last,
            "stack_id": 0,
        }
        threads = [
            {"pid": 0, "tid": tid, "name": name, "stack_id": 0}
            for tid, name in self._threads.items()
        ]
        devices = [{"pid": 0, "device": at, **known} for at, known in self._devices.items()]
        for table, found in (("process", [process]), ("thread", threads), ("device", devices)):
            self._part.append(table, pa.Table.from_pylist(found, schema=arrow_schema(table)))
        return Imported(transforms={"span": SpanParents(self._losses).add})

    def _name(self, place: int | bytes | Place) -> str:
        try:
            for number, _, value in self._file.fields(place):
                if number == _PLANE_NAME and isinstance(value, bytes):
                    return text(value)
        except WireError:
            pass
        return ""

    def _read_plane(self, plane: Plane) -> None:
        self.planes += bool(plane.name)
        device = device_of(plane.name)
        if device is not None:
            self._devices[device[1]] = _described(device[0], plane.stats)
        for line in plane.lines():
            if device is not None:
                self._read_device_line(plane, line, *device)
            elif plane.name.startswith("/host:") and plane.name != _METADATA:
                self._read_thread(plane, line)
            else:
                self._losses.skip(_OTHER_PLANE.format(plane.name[:80]))
        self._losses.fault(_BROKEN, plane.broken)
        self._losses.skip(_AGGREGATED, plane.aggregated)

    def _read_thread(self, plane: Plane, line: Line) -> None:
        self._threads.setdefault(line.id, line.name)
        for event in plane.events(line):
            times = self._times(line, event)
            if times is None:
                continue
            correlation = whole(event.stats.get("correlation_id"), _U64_MAX)
            if correlation:
                self._calls.add(0, line.id, *times, event.name, correlation, 0, 0)
            else:
                self._spans.add(0, line.id, *times, _level(event), event.name, 0, 0)

    def _read_device_line(self, plane: Plane, line: Line, kind: str, device: int) -> None:
        work = line.name.startswith(_TPU_WORK) if kind != "GPU" else line.name not in _DERIVED
        for event in plane.events(line):
            if not work:
                self._losses.skip(_DERIVED_LINE.format(line.name[:80]))
            elif any(name in event.stats for name in _MEMORY_DETAILS):
                self._losses.skip(_MEMORY)
            elif (times := self._times(line, event)) is not None:
                self._add_work(device, line, event, times)

    def _add_work(
        self, device: int, line: Line, event: Event, times: tuple[int, int | None]
    ) -> None:
        stats = event.stats
        place = (
            *(0, device, *times, whole(stats.get("correlation_id"), _U64_MAX) or 0),
            *(whole(stats.get("context_id")) or 0, line.id, 0),
        )
        copied = next((stats[name] for name in _COPY_DETAILS if name in stats), None)
        if copied is None and not event.name.lower().startswith(("memcpy", "memset")):
            self._launches += 1
            graph = whole(stats.get("cuda_graph_id"), _U64_MAX) or 0
            shape = launch_shape(str(stats.get("kernel_details", "")))
            self._kernels.add(*place, self._launches, graph, 0, demangled(event.name), *shape)
        else:
            known = details(copied)
            ends = (known.get("kind_src", ""), known.get("kind_dst", known.get("kind", "")))
            self._copies.add(*place, copy_kind(event.name), *ends, whole(known.get("size")))

    def _times(self, line: Line, event: Event) -> tuple[int, int | None] | None:
        """Return start and duration in ns, both ends rounded down; `None`: it has no time."""
        base = line.start_ns if line.start_ns >= self._base else self._base + line.start_ns
        start = base + event.start_ps // _PS
        if not 0 < start < _LATEST:
            self._losses.fault(_NO_TIME, where=f"event '{event.name[:80]}'")
            return None
        self.kept += 1
        self._losses.skip(_NO_NAME, int(not event.name))
        if event.duration_ps is None:
            self._losses.fault(_NO_DURATION, where=f"event '{event.name[:80]}'")
            end = start
        else:
            end = base + (event.start_ps + event.duration_ps) // _PS
        self._first = start if self._first is None else min(self._first, start)
        self._last = end if self._last is None else max(self._last, end)
        return start, None if event.duration_ps is None else end - start


def _level(event: Event) -> str:
    """Return what kind of range an event of a host thread is."""
    if "step_num" in event.stats:
        return "step"
    if "hlo_op" in event.stats or "tf_op" in event.stats:
        return "operator"
    return "function" if event.name.startswith("$") else "annotation"


def _described(kind: str, stats: Stats) -> dict[str, Any]:
    """Return what a plane says of its device."""
    major, minor = stats.get("compute_cap_major"), stats.get("compute_cap_minor")
    bandwidth = whole(stats.get("memory_bandwidth"))
    name = stats.get("device_type_string") or stats.get("device_type") or kind
    vendor = _VENDORS.get(str(stats.get("device_vendor", "")))
    return {
        "vendor": vendor or ("google" if kind == "TPU" else ""),
        "name": str(name),
        "memory_bytes": whole(stats.get("memory_size")),
        "multiprocessors": whole(stats.get("core_count"), _U32_MAX >> 1),
        "compute_capability": None if major is None else f"{major}.{minor}",
        "peak_bandwidth": None if bandwidth is None else float(bandwidth),
    }
