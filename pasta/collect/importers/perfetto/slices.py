"""Slices of Perfetto's tracks as rows: what a slice is, its category and track tell."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from pasta.collect.containers.protobuf_fields import by_number, integers, message, number
from pasta.collect.demangle import demangled
from pasta.collect.importers.perfetto.messages import (
    Interned,
    TrackEvent,
    Values,
    integer,
    last,
    string,
    whole,
)
from pasta.collect.importers.perfetto.sequences import Sequence
from pasta.collect.shaping.rows import Rows
from pasta.trace_writer import PartWriter

_KERNEL = frozenset({"kernel", "kernel_dispatch", "gpu_kernel"})
_COPY = frozenset({"gpu_memcpy", "gpu_memset", "memory_copy", "memcpy", "memset"})
_CALL = re.compile(r"(?:hip|hsa|cuda|rccl|roc\w*|xpu|ompt)\w*_(?:api|runtime|driver)\w*")
_LEVELS = {"cpu_op": "operator", "python_function": "function"}
_DEVICE_IN_NAME = re.compile(r"(?:GPU|AGENT|[Dd]evice)\W{0,3}(\d{1,6})")
_DIRECTION = re.compile(r"(HOST|DEVICE|[HD])_?(?:TO|2|to)_?(HOST|DEVICE|[HD])")
_ANNOTATION_IID, _ANNOTATION_NAME, _ANNOTATION_STRING_IID = 1, 10, 17
_BOOL, _UINT, _INT, _DOUBLE, _STRING, _POINTER = 2, 3, 4, 5, 6, 7
_CORRELATIONS = ("correlation", "correlation_id", "corr_id")
_SIZES = ("bytes", "copy_bytes", "size")
_U64_MAX, _I64_MAX, _I32_MAX, _U32_MAX = (1 << 64) - 1, (1 << 63) - 1, (1 << 31) - 1, (1 << 32) - 1

Times = tuple[int, int | None]
"""Start and duration in ns."""


@dataclass
class Slice:
    """A slice that has begun.

    Attributes:
        order: counts slices in order of their begins.
        uuid: of the track.
        ts: when it began.
        name: what it is called.
        category: the first of its categories.
        arguments: its annotations.
    """

    order: int
    uuid: int
    ts: int
    name: str
    category: str
    arguments: dict[str, Any] = field(default_factory=dict)


def begun(event: Values, sequence: Sequence, order: int, uuid: int, ts: int) -> Slice:
    """Return the slice that a track event begins."""
    name = string(event, TrackEvent.NAME) or sequence.name(
        Interned.EVENT_NAMES, whole(event, TrackEvent.NAME_IID)
    )
    category = string({0: event.get(TrackEvent.CATEGORIES, [])[:1]}, 0)
    for packed in event.get(TrackEvent.CATEGORY_IIDS, []):
        for iid in integers(packed):
            category = category or sequence.name(Interned.CATEGORIES, iid)
    return Slice(order, uuid, ts, name, category, _arguments(event, sequence))


def _arguments(event: Values, sequence: Sequence) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for data in event.get(TrackEvent.DEBUG_ANNOTATIONS, []):
        annotation = by_number(message(data))
        name = string(annotation, _ANNOTATION_NAME) or sequence.name(
            Interned.ANNOTATION_NAMES, whole(annotation, _ANNOTATION_IID)
        )
        if name:
            found[name] = _value(annotation, sequence)
    return found


def _value(annotation: Values, sequence: Sequence) -> Any:
    for unsigned_field in (_UINT, _POINTER, _BOOL):
        if unsigned_field in annotation:
            return whole(annotation, unsigned_field)
    if _INT in annotation:
        return integer(annotation, _INT)
    if _DOUBLE in annotation:
        return number(last(annotation, _DOUBLE) or 0)
    return string(annotation, _STRING) or sequence.name(
        Interned.STRING_VALUES, whole(annotation, _ANNOTATION_STRING_IID)
    )


class SliceRows:
    """Appends slices to `span`, `call`, `kernel` and `copy`.

    Args:
        part: where the rows go.

    Attributes:
        launches: the number of the last kernel.
    """

    def __init__(self, part: PartWriter) -> None:
        self.launches = 0
        host = ("pid", "tid", "ts", "dur")
        device = ("pid", "device", "ts", "dur", "context", "stream", "correlation", "external_id")
        self._spans = Rows(
            part, "span", *host, "span_id", "level", "name", "external_id", "stack_id"
        )
        self._calls = Rows(part, "call", *host, "name", "correlation", "external_id", "stack_id")
        self._kernels = Rows(
            *(part, "kernel", *device, "launch_id", "graph_id", "graph_node_id", "name"),
            *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
        )
        self._copies = Rows(part, "copy", *device, "kind", "source", "destination", "bytes")

    def add(self, piece: Slice, place: tuple[int, int], track: str, dur: int | None) -> None:
        """Append a slice.

        Args:
            piece: the slice.
            place: process and thread of its track.
            track: the track's name.
            dur: how long it took; `None`: it never ended.
        """
        pid, tid = place
        correlation = _first(piece.arguments, _CORRELATIONS, _U64_MAX) or 0
        if piece.category in _KERNEL or piece.category in _COPY:
            found = _DEVICE_IN_NAME.search(track)
            told = _first(piece.arguments, ("device", "agent", "dst_agent"), _I32_MAX)
            device = told if told is not None else int(found[1]) if found else 0
            stream = _first(piece.arguments, ("stream", "queue"), _I64_MAX)
            where = (
                *(pid, device, piece.ts, dur, _first(piece.arguments, ("context",), _I64_MAX) or 0),
                *(abs(tid) if stream is None else stream, correlation, 0),
            )
            if piece.category in _COPY:
                self._copies.add(*where, *_copied(piece))
            else:
                self.add_kernel(where, piece.name, (None,) * 6)
        elif _CALL.fullmatch(piece.category):
            self._calls.add(pid, tid, piece.ts, dur, piece.name, correlation, 0, 0)
        else:
            level = _LEVELS.get(piece.category, "annotation")
            self._spans.add(pid, tid, piece.ts, dur, piece.order, level, piece.name, 0, 0)

    def add_kernel(self, where: tuple[Any, ...], name: str, shape: tuple[int | None, ...]) -> None:
        """Append a kernel.

        Args:
            where: pid, device, ts, dur, context, stream, correlation and external_id.
            name: the kernel's.
            shape: grid and block in x, y and z.
        """
        self.launches += 1
        self._kernels.add(*where, self.launches, 0, 0, demangled(name), *shape)

    def flush(self) -> None:
        """Append what is held back."""
        for rows in (self._spans, self._calls, self._kernels, self._copies):
            rows.flush()


def _copied(piece: Slice) -> tuple[str, str, str, int | None]:
    """Return kind, source, destination and bytes of a copy."""
    size = _first(piece.arguments, _SIZES, _I64_MAX)
    if "memset" in f"{piece.category} {piece.name}".lower():
        return "memset", "", "", size
    found = _DIRECTION.search(piece.name)
    kind = f"{found[1][0]}to{found[2][0]}" if found else piece.name
    return kind, "", "", size


def _first(arguments: dict[str, Any], names: tuple[str, ...], largest: int) -> int | None:
    """Return the first of some arguments that is a whole number from 0 to `largest`."""
    for name in names:
        value = arguments.get(name)
        if isinstance(value, str) and value.isdecimal() and len(value) < len(str(_U64_MAX)):
            value = int(value)
        if type(value) is int and 0 <= value <= largest:
            return value
    return None
