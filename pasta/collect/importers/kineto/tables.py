"""Rows of pasta's tables from Kineto events, a block at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pasta.collect.importers.kineto.communication import Communication
from pasta.collect.importers.kineto.copies import copy_kind
from pasta.collect.importers.kineto.events import (
    ABSENT,
    CallArguments,
    CopyArguments,
    Event,
    Instant,
    KernelArguments,
    MemoryArguments,
    SpanArguments,
    SyncArguments,
    decode_arguments,
)
from pasta.collect.importers.kineto.stacks import CallStacks
from pasta.collect.losses import Losses
from pasta.collect.shaping.columns import Columns, Interned
from pasta.collect.shaping.decimal_time import nanoseconds
from pasta.collect.shaping.sizes import not_negative
from pasta.trace_writer import PartWriter

_U32, _U64, _I32, _I64, _TEXT = pa.uint32(), pa.uint64(), pa.int32(), pa.int64(), pa.string()
_HOST_DEVICE_TYPE = 0
_I64_MAX = (1 << 63) - 1

E = TypeVar("E", bound=Event)
Get = Callable[[str], list[Any]]
"""Gives one argument of all events of a block."""


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
        device_communicators: the communicators that kernels work for.
        first: the earliest start so far in ns, `None` before there is one.
        last: the latest end so far in ns.
    """

    def __init__(self, part: PartWriter, losses: Losses, launches: int = 0) -> None:
        self.launches = launches
        self.host_threads: Counter[tuple[Any, Any]] = Counter()
        self.devices: set[int] = set()
        self.device_communicators: set[str] = set()
        self.first: int | None = None
        self.last: int | None = None
        self._part = part
        self._losses = losses
        self._columns = Columns(losses)
        self._communication = Communication(self._columns, losses)
        self._stacks = CallStacks()
        self._shapes = Interned(_shape_texts, pa.list_(_TEXT), "Input Dims", losses)
        self._types = Interned(_texts, pa.list_(_TEXT), "Input type", losses)

    def add_spans(self, events: list[Event], level: Callable[[list[str]], pa.Array[Any]]) -> None:
        """Append operators, annotations or Python functions to `span`."""
        events, ts, dur = self._timed(events)
        get = _getter(decode_arguments(events, SpanArguments))
        names = [event.name for event in events]
        sequence = self._columns.numbers(get("sequence"), _I64, "Sequence number")
        forward = self._columns.numbers(get("forward_tid"), _I64, "Fwd thread id")
        columns = {
            "tid": self._threads(events),
            "ts": ts,
            "dur": dur,
            "level": level(names),
            "name": self._columns.texts(names),
            "external_id": self._columns.ids(get("external"), "External id"),
            "sequence": _at_least(sequence, 0),
            "forward_tid": _at_least(forward, 1),
            "stack_id": self._stacks.ids(get("stack")),
        }
        for name, interned in (("shapes", self._shapes), ("types", self._types)):
            raws = get(name)
            if raws.count(ABSENT) < len(raws):
                columns[f"input_{name}"] = interned.column(raws)
        self._append("span", columns)
        if (frames := self._stacks.take_frames()) is not None:
            self._part.append("frame", frames)
        self._add_recorded_collectives(events, ts, dur)

    def add_calls(self, events: list[Event]) -> None:
        """Append runtime and driver calls to `call`."""
        events, ts, dur = self._timed(events)
        get = _getter(decode_arguments(events, CallArguments))
        correlation = self._columns.ids(get("correlation"), "correlation")
        sizes, worded = get("bytes"), get("memory_size")
        if worded.count(None) < len(worded):
            for row, size in enumerate(worded):
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
                "bytes": self._sizes(sizes, "bytes"),
                "stack_id": _zeros(len(events)),
            },
        )

    def add_kernels(self, events: list[Event]) -> None:
        """Append kernels to `kernel`, and those that communicate to `collective` too."""
        events, ts, dur = self._timed(events)
        get = _getter(decode_arguments(events, KernelArguments))
        numbers = np.arange(1, len(events) + 1, dtype=np.uint64) + np.uint64(self.launches)
        self.launches += len(events)
        columns = {
            "ts": ts,
            "dur": dur,
            **self._device_columns(events, get),
            "launch_id": pa.array(numbers),
            "graph_id": self._columns.ids(get("graph_id"), "graph id"),
            "graph_node_id": self._columns.ids(get("graph_node_id"), "graph node id"),
            "name": self._columns.texts([event.name for event in events]),
            "registers": self._columns.numbers(get("registers"), _U32, "registers per thread"),
            "shared_bytes": self._columns.numbers(get("shared"), _U32, "shared memory"),
            **self._shape_columns("grid", get("grid")),
            **self._shape_columns("block", get("block")),
        }
        self._append("kernel", columns)
        rows, described = self._communication.of_kernels(events, get("collective"))
        if rows:
            self.device_communicators.update(map(str, described["communicator"].to_pylist()))
            shared = ("ts", "dur", "device", "launch_id", "correlation", "stream")
            taken = {name: columns[name].take(pa.array(rows)) for name in shared}
            self._append("collective", taken | described)

    def add_copies(self, events: list[Event]) -> None:
        """Append memcpys and memsets to `copy`."""
        events, ts, dur = self._timed(events)
        arguments = decode_arguments(events, CopyArguments)
        get = _getter(arguments)
        kinds = [
            copy_kind(event.name, _text(argument.kind), _text(argument.direction))
            for event, argument in zip(events, arguments, strict=True)
        ]
        sizes = [each.size if each.bytes is None else each.bytes for each in arguments]
        self._append(
            "copy",
            {
                "ts": ts,
                "dur": dur,
                **self._device_columns(events, get),
                "kind": pa.array([kind for kind, _, _ in kinds], _TEXT),
                "source": pa.array([source for _, source, _ in kinds], _TEXT),
                "destination": pa.array([destination for _, _, destination in kinds], _TEXT),
                "bytes": self._sizes(sizes, "bytes"),
            },
        )

    def add_syncs(self, events: list[Event]) -> None:
        """Append synchronisations to `sync`."""
        events, ts, dur = self._timed(events)
        get = _getter(decode_arguments(events, SyncArguments))
        kinds = [
            event.name if kind is None else kind
            for event, kind in zip(events, get("kind"), strict=True)
        ]
        columns = self._device_columns(events, get)
        columns["stream"] = _at_least(columns["stream"], 0)
        waited = self._columns.numbers(get("waited_stream"), _I64, "wait_on_stream")
        self._append(
            "sync",
            {
                "ts": ts,
                "dur": dur,
                **columns,
                "kind": self._columns.texts(kinds),
                "event_id": self._columns.ids(get("event_id"), "wait_on_cuda_event_id"),
                "waited_stream": _at_least(waited, 0),
                "waited_correlation": self._columns.ids(
                    get("waited_correlation"), "wait_on_cuda_event_record_corr_id"
                ),
            },
        )

    def add_memory(self, events: list[Instant]) -> None:
        """Append the allocator's instants to `memory`."""
        events, ts = self._timed_instants(events)
        get = _getter(decode_arguments(events, MemoryArguments))
        sizes: NDArray[np.int64] = (
            self._columns.numbers(get("bytes"), _I64, "Bytes").fill_null(0).to_numpy()
        )
        device: NDArray[np.int32] = (
            self._columns.numbers(get("device"), _I32, "Device Id").fill_null(-1).to_numpy()
        )
        on_host = np.array([kind == _HOST_DEVICE_TYPE for kind in get("device_type")], dtype=bool)
        events_of_sign = np.where(sizes < 0, "release", "allocate")
        self._append(
            "memory",
            {
                "tid": self._threads(events),
                "device": pa.array(np.where(on_host, np.int32(-1), device)),
                "ts": ts,
                "event": pa.array(events_of_sign.tolist(), _TEXT),
                "space": pa.array(["tensor"] * len(events), _TEXT),
                "address": self._columns.numbers(get("address"), _U64, "Addr"),
                "bytes": pa.array(np.abs(np.maximum(sizes, -_I64_MAX))),
                "object_id": _zeros(len(events)),
                "total_allocated": self._sizes(get("total_allocated"), "Total Allocated"),
                "total_reserved": self._sizes(get("total_reserved"), "Total Reserved"),
                "stack_id": _zeros(len(events)),
            },
        )

    def extend(self, first: int | None, last: int | None) -> None:
        """Widen the time that the rows span."""
        if first is not None and last is not None:
            self.first = first if self.first is None else min(self.first, first)
            self.last = last if self.last is None else max(self.last, last)

    def thread_number(self, tid: Any) -> int:
        """Return the thread id for what the file has as `tid`."""
        try:
            number = int(tid)
        except (ValueError, TypeError, OverflowError):
            return self._columns.renumber(str(tid), "tid", sign=-1)
        if -(1 << 63) <= number < 1 << 63:
            return number
        return self._columns.renumber(tid, "tid", sign=-1)

    def _append(self, table: str, columns: dict[str, pa.Array[Any]]) -> None:
        self._part.append(table, pa.RecordBatch.from_pydict(columns))

    def _add_recorded_collectives(
        self, events: list[Event], ts: pa.Array[Any], dur: pa.Array[Any]
    ) -> None:
        """Append what the host recorded of collectives: all that a trace of CPUs has of them."""
        rows, described = self._communication.of_operators(events)
        if not rows:
            return
        columns = {
            "device": pa.array([-1] * len(rows), _I32),
            "ts": ts.take(pa.array(rows)),
            "dur": dur.take(pa.array(rows)),
            "launch_id": _zeros(len(rows)),
            "correlation": _zeros(len(rows)),
        }
        self._append("collective", columns | described)

    def _timed(self, events: list[Event]) -> tuple[list[Event], pa.Array[Any], pa.Array[Any]]:
        """Return the events that have a start, with starts and durations, null where unknown."""
        values, known = nanoseconds([event.ts for event in events] + [e.dur for e in events])
        ts, sound = values[: len(events)], known[: len(events)]
        dur, finished = values[len(events) :], known[len(events) :]
        sound &= ts > 0
        if not sound.all():
            events = self._with_start(events, sound)
            ts, dur, finished = ts[sound], dur[sound], finished[sound]
        if events:
            finished = self._believed(events, ts, dur, finished)
            self.extend(int(ts.min()), int((ts + np.where(finished, dur, 0)).max()))
        return events, pa.array(ts), pa.array(dur, mask=~finished)

    def _timed_instants(self, events: list[E]) -> tuple[list[E], pa.Array[Any]]:
        """Return the instants that have a time, with the times."""
        ts, sound = nanoseconds([event.ts for event in events])
        sound &= ts > 0
        if not sound.all():
            events, ts = self._with_start(events, sound), ts[sound]
        if events:
            self.extend(int(ts.min()), int(ts.max()))
        return events, pa.array(ts)

    def _with_start(self, events: list[E], sound: NDArray[np.bool_]) -> list[E]:
        self._losses.fault(
            "event without a start time (0, missing or no number): left out",
            int((~sound).sum()),
            where=f"event '{events[int(np.argmin(sound))].name[:80]}'",
        )
        return [event for event, keep in zip(events, sound.tolist(), strict=True) if keep]

    def _believed(
        self,
        events: list[Event],
        ts: NDArray[np.int64],
        dur: NDArray[np.int64],
        finished: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:
        """Return which durations are sound, and count those that are not."""
        negative = finished & (dur < 0)
        for wrong, reason in (
            (~finished, "event without a duration: kept as unfinished"),
            (negative, "event with a negative duration: kept as unfinished"),
        ):
            if wrong.any():
                name = events[int(np.argmax(wrong))].name[:80]
                first = int(ts[wrong].min())
                self._losses.fault(reason, int(wrong.sum()), first, where=f"event '{name}'")
        return finished & ~negative

    def _threads(self, events: Sequence[Event]) -> pa.Array[Any]:
        """Return the host thread of each event; text that is no number gets a number."""
        tids = [event.tid for event in events]
        self.host_threads.update(zip([event.pid for event in events], tids, strict=True))
        try:
            return pa.array(tids, _I64)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            return pa.array([self.thread_number(tid) for tid in tids], _I64)

    def _device_columns(self, events: list[Event], get: Get) -> dict[str, pa.Array[Any]]:
        """Return device, correlation, external_id, context and stream.

        Where the arguments lack them, the event's pid is the device and its tid the stream.
        """
        devices, streams = get("device"), get("stream")
        if None in devices or None in streams:
            for row, event in enumerate(events):
                if devices[row] is None:
                    devices[row] = event.pid
                if streams[row] is None:
                    streams[row] = _trailing_number(event.tid)
        device = self._columns.numbers(devices, _I32, "device").fill_null(-1)
        self.devices.update(np.unique(device.to_numpy()).tolist())
        correlation = self._columns.ids(get("correlation"), "correlation")
        return {
            "device": device,
            "correlation": correlation,
            "external_id": self._external(get, correlation),
            "context": self._columns.numbers(get("context"), _I64, "context").fill_null(0),
            "stream": self._columns.numbers(streams, _I64, "stream"),
        }

    def _external(self, get: Get, correlation: pa.Array[Any]) -> pa.Array[Any]:
        """Return the operators' ids; one that repeats the correlation tells no operator."""
        values = get("external")
        if None in values:
            old = get("external_2021")
            values = [early if new is None else new for new, early in zip(values, old, strict=True)]
        external: NDArray[np.uint64] = self._columns.ids(values, "External id").to_numpy()
        repeats = (external == correlation.to_numpy()) & (external != 0)
        self._losses.skip(
            "External id that repeats the correlation: read as unknown", int(repeats.sum())
        )
        return pa.array(np.where(repeats, np.uint64(0), external))

    def _sizes(self, values: list[Any], name: str) -> pa.Array[Any]:
        return not_negative(self._columns.numbers(values, _I64, name), self._losses)

    def _shape_columns(self, name: str, shapes: list[Any]) -> dict[str, pa.Array[Any]]:
        """Return the columns of x, y and z of launch shapes such as `[32, 1, 1]`."""
        try:
            table: NDArray[Any] = np.array(shapes, dtype=np.uint32)
        except (ValueError, TypeError, OverflowError):
            table = np.zeros(0)
        if table.shape == (len(shapes), 3):
            return {f"{name}_{axis}": pa.array(table[:, at]) for at, axis in enumerate("xyz")}
        return {
            f"{name}_{axis}": self._columns.numbers(
                [_item(shape, at) for shape in shapes], _U32, name
            )
            for at, axis in enumerate("xyz")
        }


def _getter(arguments: Sequence[Any]) -> Get:
    return lambda name: list(map(attrgetter(name), arguments))


def _zeros(count: int) -> pa.Array[Any]:
    return pa.array(np.zeros(count, dtype=np.uint64))


def _at_least(numbers: pa.Array[Any], lowest: int) -> pa.Array[Any]:
    """Return `numbers` with null in place of what is less than `lowest`: it means none."""
    values: NDArray[np.int64] = numbers.fill_null(lowest - 1).to_numpy()
    return pa.array(values, mask=values < lowest)


def _item(values: Any, place: int) -> Any:
    return values[place] if isinstance(values, list) and place < len(values) else None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _trailing_number(tid: Any) -> Any:
    """Return the number in a label such as `stream 7`."""
    return tid.split()[-1] if isinstance(tid, str) and tid.split() else tid


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
