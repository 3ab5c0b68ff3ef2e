"""Rows of pasta's tables from Kineto events, a block at a time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pasta.collect.importers import collectives
from pasta.collect.importers.columns import Columns, Interned, stable_number
from pasta.collect.importers.decimal_time import nanoseconds
from pasta.collect.importers.kineto_events import (
    CallArguments,
    CommunicationArguments,
    CopyArguments,
    Event,
    KernelArguments,
    MemoryArguments,
    SpanArguments,
    SyncArguments,
)
from pasta.collect.losses import Losses
from pasta.trace_writer import PartWriter

_U32, _U64, _I32, _I64 = pa.uint32(), pa.uint64(), pa.int32(), pa.int64()
_COPY = re.compile(r"(?:Memcpy|Memset|Copy)\s*(\w*)\s*(?:\(([^()]*)\))?")
_COPY_KIND = re.compile(r"(Host|Device|Peer|Array)To(Host|Device|Peer|Array)")
_MTIA_DIRECTIONS = {
    "DEVICE_TO_HOST": "DtoH",
    "HOST_TO_DEVICE": "HtoD",
    "DEVICE_TO_DEVICE": "DtoD",
}
_HOST_DEVICE_TYPE = 0
_FRAME = re.compile(r"(.*)\((\d+)\): (.*)", re.DOTALL)


class KinetoTables:
    """Appends events to the tables of a part; times are relative to the file's time base.

    Args:
        part: where the rows go.
        losses: where what cannot be kept is counted.

        launches: number kernels after this one.

    Attributes:
        launches: the number of the last kernel.
        host_threads: (pid, tid) of every host row, as the file has them, with their counts.
        devices: the ordinals of the devices with rows.
        first, last: the earliest start and the latest end so far, in ns.
    """

    def __init__(self, part: PartWriter, losses: Losses, launches: int = 0) -> None:
        self.launches = launches
        self.host_threads: Counter[tuple[Any, Any]] = Counter()
        self.devices: set[int] = set()
        self.first: int | None = None
        self.last: int | None = None
        self._part = part
        self._losses = losses
        self._columns = Columns(losses)
        self._stacks: dict[str, int] = {}
        self._shapes = Interned(_shape_texts, pa.list_(pa.string()))
        self._types = Interned(_texts, pa.list_(pa.string()))
        self._members = Interned(collectives.parse_members, pa.list_(pa.int64()))

    def add_spans(self, events: list[Event], level: Callable[[list[str]], pa.Array[Any]]) -> None:
        """Append operators, annotations or Python functions to `span`."""
        events, ts, dur = self._timed(events)
        arguments = _decode(events, SpanArguments, _SPAN_ARGUMENTS)
        get = _getter(arguments)
        names = [event.name for event in events]
        columns = {
            "tid": self._threads(events),
            "ts": ts,
            "dur": dur,
            "level": level(names),
            "name": self._columns.texts(names),
            "external_id": self._columns.ids(get("external"), "External id"),
            "sequence": _positive(
                self._columns.numbers(get("sequence"), _I64, "Sequence number"), 0
            ),
            "forward_tid": _positive(
                self._columns.numbers(get("forward_tid"), _I64, "Fwd thread id"), 1
            ),
            "stack_id": self._stack_ids(get("stack")),
        }
        for name, interned in (("shapes", self._shapes), ("types", self._types)):
            raws = get(name)
            if any(map(bytes, raws)):
                columns[f"input_{name}"] = interned.column(raws)
        self._append("span", columns)
        self._add_host_communication(events, ts, dur)

    def add_calls(self, events: list[Event]) -> None:
        """Append runtime and driver calls to `call`."""
        events, ts, dur = self._timed(events)
        get = _getter(_decode(events, CallArguments, _CALL_ARGUMENTS))
        correlation = self._columns.ids(get("correlation"), "correlation")
        sizes = get("bytes")
        for row, size in enumerate(get("memory_size")):
            if size is not None:
                sizes[row] = str(size).removesuffix(" bytes")
        self._append(
            "call",
            {
                "tid": self._threads(events),
                "ts": ts,
                "dur": dur,
                "correlation": correlation,
                "external_id": self._external(get, correlation),
                "name": self._columns.texts([event.name for event in events]),
                "bytes": self._columns.numbers(sizes, _I64, "bytes"),
            },
        )

    def add_kernels(self, events: list[Event]) -> None:
        """Append kernels to `kernel`, and those that communicate to `collective` too."""
        events, ts, dur = self._timed(events)
        get = _getter(_decode(events, KernelArguments, _KERNEL_ARGUMENTS))
        first = self.launches + 1
        self.launches += len(events)
        columns = {
            "ts": ts,
            "dur": dur,
            **self._device_columns(events, get),
            "launch_id": pa.array(np.arange(first, first + len(events), dtype=np.uint64)),
            "graph_id": self._columns.ids(get("graph_id"), "graph id"),
            "graph_node_id": self._columns.ids(get("graph_node_id"), "graph node id"),
            "name": self._columns.texts([event.name for event in events]),
            "registers": self._columns.numbers(get("registers"), _U32, "registers per thread"),
            "shared_bytes": self._columns.numbers(get("shared"), _U32, "shared memory"),
        }
        for shape in ("grid", "block"):
            columns |= self._shape_columns(shape, get(shape))
        self._append("kernel", columns)
        self._add_device_communication(events, columns)

    def add_copies(self, events: list[Event]) -> None:
        """Append memcpys and memsets to `copy`."""
        events, ts, dur = self._timed(events)
        arguments = _decode(events, CopyArguments, _COPY_ARGUMENTS)
        get = _getter(arguments)
        described = [
            _copy_kind(event.name, argument.kind, argument.direction)
            for event, argument in zip(events, arguments, strict=True)
        ]
        sizes = [
            argument.size if argument.bytes is None else argument.bytes for argument in arguments
        ]
        self._append(
            "copy",
            {
                "ts": ts,
                "dur": dur,
                **self._device_columns(events, get),
                "kind": pa.array([kind for kind, _, _ in described], pa.string()),
                "source": pa.array([source for _, source, _ in described], pa.string()),
                "destination": pa.array([target for _, _, target in described], pa.string()),
                "bytes": self._columns.numbers(sizes, _I64, "bytes"),
            },
        )

    def add_syncs(self, events: list[Event]) -> None:
        """Append synchronisations to `sync`."""
        events, ts, dur = self._timed(events)
        get = _getter(_decode(events, SyncArguments, _SYNC_ARGUMENTS))
        kinds = [
            event.name if kind is None else kind
            for event, kind in zip(events, get("kind"), strict=True)
        ]
        columns = self._device_columns(events, get)
        columns["stream"] = _positive(columns["stream"], 0)
        waited = self._columns.numbers(get("waited_stream"), _I64, "wait_on_stream")
        self._append(
            "sync",
            {
                "ts": ts,
                "dur": dur,
                **columns,
                "kind": self._columns.texts(kinds),
                "event_id": self._columns.ids(get("event_id"), "wait_on_cuda_event_id"),
                "waited_stream": _positive(waited, 0),
                "waited_correlation": self._columns.ids(
                    get("waited_correlation"), "wait_on_cuda_event_record_corr_id"
                ),
            },
        )

    def add_memory(self, events: list[Event]) -> None:
        """Append the allocator's instants to `memory`."""
        events, ts, _ = self._timed(events, instants=True)
        get = _getter(_decode(events, MemoryArguments, _MEMORY_ARGUMENTS))
        signed = self._columns.numbers(get("bytes"), _I64, "Bytes")
        sizes = pc.fill_null(signed, 0).to_numpy()
        device = self._columns.numbers(get("device"), _I32, "Device Id")
        on_host = np.array([kind == _HOST_DEVICE_TYPE for kind in get("device_type")], dtype=bool)
        totals = {
            name: self._columns.numbers(get(name), _I64, name.replace("_", " "))
            for name in ("total_allocated", "total_reserved")
        }
        self._append(
            "memory",
            {
                "tid": self._threads(events),
                "device": pc.if_else(
                    pa.array(on_host), pa.scalar(-1, _I32), pc.fill_null(device, -1)
                ),
                "ts": ts,
                "event": pa.array(np.where(sizes < 0, "release", "allocate").tolist(), pa.string()),
                "space": _repeated("tensor", len(events)),
                "address": self._columns.numbers(get("address"), _U64, "Addr"),
                "bytes": pa.array(np.abs(sizes)),
                "object_id": pa.array(np.zeros(len(events), dtype=np.uint64)),
                **totals,
                "stack_id": pa.array(np.zeros(len(events), dtype=np.uint64)),
            },
        )

    def extend(self, first: int | None, last: int | None) -> None:
        """Widen the time that the rows span."""
        if first is not None and last is not None:
            self.first = first if self.first is None else min(self.first, first)
            self.last = last if self.last is None else max(self.last, last)

    def _append(self, table: str, columns: dict[str, pa.Array[Any]]) -> None:
        self._part.append(table, pa.RecordBatch.from_pydict(columns))

    def _timed(
        self, events: list[Event], *, instants: bool = False
    ) -> tuple[list[Event], pa.Array[Any], pa.Array[Any]]:
        """Return the events that have a start, with starts and durations."""
        ts, sound = nanoseconds([event.ts for event in events])
        sound &= ts > 0
        if not sound.all():
            self._losses.fault(
                "event without a start time (0, missing or no number): left out",
                int((~sound).sum()),
                where=f"event '{events[int(np.argmin(sound))].name[:80]}'",
            )
            events = [event for event, keep in zip(events, sound.tolist(), strict=True) if keep]
            ts = ts[sound]
        if not events:
            return events, pa.array(ts), pa.nulls(0, _I64)
        end = ts
        durations = None
        if not instants:
            durations, end = self._durations(events, ts)
        self.extend(int(ts.min()), int(end.max()))
        return events, pa.array(ts), durations

    def _durations(
        self, events: list[Event], ts: NDArray[np.int64]
    ) -> tuple[pa.Array[Any], NDArray[np.int64]]:
        raws = [event.dur for event in events]
        dur, known = nanoseconds(raws)
        negative = known & (dur < 0)
        for wrong, reason in (
            (~known, "event without a duration: kept as unfinished"),
            (negative, "event with a negative duration: kept as unfinished"),
        ):
            if wrong.any():
                row = int(np.argmax(wrong))
                self._losses.fault(
                    reason,
                    int(wrong.sum()),
                    int(ts[wrong].min()),
                    where=f"event '{events[row].name[:80]}'",
                )
        known &= ~negative
        return pa.array(dur, mask=~known), ts + np.where(known, dur, 0)

    def _threads(self, events: list[Event]) -> pa.Array[Any]:
        """Return the host thread of each event; text that is no number gets a number."""
        tids = [event.tid for event in events]
        self.host_threads.update(zip([event.pid for event in events], tids, strict=True))
        try:
            return pa.array(tids, _I64)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            return pa.array([self.thread_number(tid) for tid in tids], _I64)

    def thread_number(self, tid: Any) -> int:
        """Return the thread id for what the file has as `tid`."""
        if type(tid) is int and -(1 << 62) < tid < 1 << 62:
            return tid
        try:
            return (
                int(str(tid))
                if abs(int(str(tid))) < 1 << 62
                else self._columns.renumber(tid, "tid", sign=-1)
            )
        except ValueError:
            return self._columns.renumber(str(tid), "tid", sign=-1)

    def _device_columns(
        self, events: list[Event], get: Callable[[str], list[Any]]
    ) -> dict[str, pa.Array[Any]]:
        """Return device, correlation, external_id, context and stream.

        Where the arguments lack them, the event's pid is the device and its tid the stream.
        """
        devices, streams = get("device"), get("stream")
        for row, event in enumerate(events):
            if devices[row] is None:
                devices[row] = event.pid
            if streams[row] is None:
                streams[row] = _trailing_number(event.tid)
        device = pc.fill_null(self._columns.numbers(devices, _I32, "device"), -1)
        self.devices.update(device.unique().to_pylist())
        correlation = self._columns.ids(get("correlation"), "correlation")
        context = self._columns.numbers(get("context"), _I64, "context")
        return {
            "device": device,
            "correlation": correlation,
            "external_id": self._external(get, correlation),
            "context": pc.fill_null(context, 0),
            "stream": self._columns.numbers(streams, _I64, "stream"),
        }

    def _shape_columns(self, name: str, shapes: list[Any]) -> dict[str, pa.Array[Any]]:
        """Return the columns of x, y and z of launch shapes such as `[32, 1, 1]`."""
        try:
            table = np.array(shapes, dtype=np.uint32)
        except (ValueError, TypeError, OverflowError):
            table = np.zeros(0)
        if table.shape == (len(shapes), 3):
            axes = [pa.array(table[:, place]) for place in range(3)]
        else:
            axes = [
                self._columns.numbers([_item(shape, place) for shape in shapes], _U32, name)
                for place in range(3)
            ]
        return {f"{name}_{axis}": values for axis, values in zip("xyz", axes, strict=True)}

    def _external(
        self, get: Callable[[str], list[Any]], correlation: pa.Array[Any]
    ) -> pa.Array[Any]:
        """Return the operators' ids; one that repeats the correlation tells no operator."""
        values = get("external")
        old = get("external_2021")
        values = [new if new is not None else early for new, early in zip(values, old, strict=True)]
        external = self._columns.ids(values, "External id").to_numpy()
        repeated = (external == correlation.to_numpy()) & (external != 0)
        self._losses.skip(
            "External id that repeats the correlation: read as unknown", int(repeated.sum())
        )
        return pa.array(np.where(repeated, np.uint64(0), external))

    def _stack_ids(self, stacks: Sequence[Any]) -> pa.Array[Any]:
        if not any(stacks):
            return pa.array(np.zeros(len(stacks), dtype=np.uint64))
        new: list[tuple[int, str]] = []
        ids = []
        for stack in stacks:
            if not stack or not isinstance(stack, str):
                ids.append(0)
                continue
            if stack not in self._stacks:
                self._stacks[stack] = stable_number(stack)
                new.append((self._stacks[stack], stack))
            ids.append(self._stacks[stack])
        self._add_frames(new)
        return pa.array(ids, _U64)

    def _add_frames(self, stacks: list[tuple[int, str]]) -> None:
        rows: list[tuple[int, int, str, str, int]] = []
        for stack_id, text in stacks:
            for depth, frame in enumerate(reversed(text.split(";"))):
                match = _FRAME.fullmatch(frame)
                file, line, function = match.groups() if match else ("", "0", frame)
                rows.append((stack_id, depth, function, file, int(line) % (1 << 31)))
        if not rows:
            return
        stack_id, depth, function, file, line = zip(*rows, strict=True)
        self._append(
            "frame",
            {
                "stack_id": pa.array(stack_id, _U64),
                "depth": pa.array(depth, _I32),
                "function": pa.array(function, pa.string()),
                "file": pa.array(file, pa.string()),
                "line": pa.array(line, _I32),
                "language": _repeated("python", len(rows)),
                "library": _repeated("", len(rows)),
            },
        )

    def _add_device_communication(
        self, events: list[Event], columns: dict[str, pa.Array[Any]]
    ) -> None:
        told = b"Collective name" in b"".join([event.args for event in events])
        rows = [
            row
            for row, event in enumerate(events)
            if collectives.is_communication(event.name)
            or (told and b"Collective name" in bytes(event.args))
        ]
        if not rows:
            return
        chosen = [events[row] for row in rows]
        arguments = _decode(chosen, CommunicationArguments, _COMMUNICATION_ARGUMENTS)
        operations = [
            collectives.operation_of_arguments(argument.collective)
            or collectives.operation_of_kernel(event.name)
            for event, argument in zip(chosen, arguments, strict=True)
        ]
        taken = pa.array(rows)
        shared = ("ts", "dur", "device", "launch_id", "correlation", "stream")
        self._append(
            "collective",
            {name: columns[name].take(taken) for name in shared}
            | self._communication_columns(arguments, operations),
        )

    def _add_host_communication(
        self, events: list[Event], ts: pa.Array[Any], dur: pa.Array[Any]
    ) -> None:
        """Append `record_param_comms` with arguments: the only trace of collectives on CPUs."""
        rows = [row for row, event in enumerate(events) if event.name == "record_param_comms"]
        arguments = _decode(
            [events[row] for row in rows], CommunicationArguments, _COMMUNICATION_ARGUMENTS
        )
        operations = [
            collectives.operation_of_arguments(argument.collective) for argument in arguments
        ]
        kept = [place for place, operation in enumerate(operations) if operation]
        if not kept:
            return
        taken = pa.array([rows[place] for place in kept])
        nothing = pa.array(np.zeros(len(kept), dtype=np.uint64))
        self._append(
            "collective",
            {
                "device": pa.array([-1] * len(kept), _I32),
                "ts": ts.take(taken),
                "dur": dur.take(taken),
                "launch_id": nothing,
                "correlation": nothing,
            }
            | self._communication_columns(
                [arguments[place] for place in kept], [operations[place] for place in kept]
            ),
        )

    def _communication_columns(
        self, arguments: list[CommunicationArguments], operations: list[str]
    ) -> dict[str, pa.Array[Any]]:
        get = _getter(arguments)
        groups = [
            str(group if group is not None else number if number is not None else "")
            for group, number in zip(get("group"), get("group_id"), strict=True)
        ]
        peers = [
            target if operation == "send" else origin if operation == "recv" else None
            for operation, target, origin in zip(
                operations, get("sent_to"), get("received_from"), strict=True
            )
        ]
        told = [argument.collective is not None for argument in arguments]
        sizes = {
            f"bytes_{way}": pa.array(
                [
                    collectives.message_bytes(elements, dtype)
                    for elements, dtype in zip(get(f"elements_{way}"), get("dtype"), strict=True)
                ],
                _I64,
            )
            for way in ("in", "out")
        }
        return {
            "communicator": pa.array(groups, pa.string()),
            "sequence": self._columns.numbers(get("sequence"), _I64, "Seq"),
            "operation": pa.array(operations, pa.string()),
            "dtype": self._columns.texts([dtype or "" for dtype in get("dtype")]),
            **sizes,
            "members": self._members.column([str(text or "").encode() for text in get("members")]),
            "peer": self._columns.numbers(peers, _I32, "peer"),
            "source": pa.array(["arguments" if known else "name" for known in told], pa.string()),
        }


def _decoder(kind: type[Any]) -> Callable[[bytes], list[Any]]:
    return msgspec.json.Decoder(list[kind]).decode  # type: ignore[valid-type]


_SPAN_ARGUMENTS = _decoder(SpanArguments)
_CALL_ARGUMENTS = _decoder(CallArguments)
_KERNEL_ARGUMENTS = _decoder(KernelArguments)
_COPY_ARGUMENTS = _decoder(CopyArguments)
_SYNC_ARGUMENTS = _decoder(SyncArguments)
_MEMORY_ARGUMENTS = _decoder(MemoryArguments)
_COMMUNICATION_ARGUMENTS = _decoder(CommunicationArguments)


def _decode(events: list[Event], kind: type[Any], decode: Callable[[bytes], list[Any]]) -> Any:
    """Return the arguments of each event; what is no object has none."""
    try:
        return decode(b"[" + b",".join([event.args for event in events]) + b"]")
    except msgspec.DecodeError:
        pass
    arguments = []
    for event in events:
        try:
            arguments += decode(b"[" + bytes(event.args) + b"]")
        except msgspec.DecodeError:
            arguments.append(kind())
    return arguments


def _getter(arguments: list[Any]) -> Callable[[str], list[Any]]:
    return lambda name: list(map(attrgetter(name), arguments))


def _positive(numbers: pa.Array[Any], lowest: int) -> pa.Array[Any]:
    """Return `numbers` with null in place of what is less than `lowest`: it means none."""
    if numbers.null_count == len(numbers):
        return numbers
    return pc.if_else(pc.less(numbers, lowest), pa.scalar(None, numbers.type), numbers)


def _repeated(text: str, count: int) -> pa.Array[Any]:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _item(values: Any, place: int) -> Any:
    return values[place] if isinstance(values, list) and place < len(values) else None


def _trailing_number(tid: Any) -> Any:
    """Return the number in a label such as `stream 7`."""
    return tid.split()[-1] if isinstance(tid, str) and tid.split() else tid


def _copy_kind(name: str, kind: Any, direction: Any) -> tuple[str, str, str]:
    """Return kind, source and destination, as of `Memcpy HtoD (Pageable -> Device)`."""
    if direction is not None:
        return _MTIA_DIRECTIONS.get(str(direction), str(direction)), "", ""
    match = _COPY.match(name)
    source, _, target = (match[2] if match and match[2] else "").lower().partition(" -> ")
    if name.lower().startswith("memset"):
        return "memset", "", source
    long_form = _COPY_KIND.search(name)
    if long_form:
        return f"{long_form[1][0]}to{long_form[2][0]}", source, target
    named = match[1] if match else ""
    return named or (str(kind) if kind is not None else name), source, target


def _texts(raw: bytes) -> list[str]:
    return [str(item) for item in msgspec.json.decode(raw, type=list[Any])]


def _shape_texts(raw: bytes) -> list[str]:
    """Return `[[2, 3], []]` as `["2x3", ""]`; a list of tensors as `2x3;4x5`."""
    return [_shape_text(shape) for shape in msgspec.json.decode(raw, type=list[Any])]


def _shape_text(shape: Any) -> str:
    if not isinstance(shape, list):
        return str(shape)
    if any(isinstance(size, list) for size in shape):
        return ";".join(map(_shape_text, shape))
    return "x".join(map(str, shape))
