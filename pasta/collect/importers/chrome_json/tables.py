"""Rows of pasta's tables from events of Chrome's trace format."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pasta.collect.importers.chrome_json.device_work import (
    copy_bytes,
    copy_kind,
    is_copy,
    launch_of,
    whole,
)
from pasta.collect.importers.chrome_json.events import ABSENT, Event, arguments_of
from pasta.collect.importers.chrome_json.lanes import Kind, Lane, Lanes
from pasta.collect.losses import Losses
from pasta.collect.shaping.columns import Columns
from pasta.collect.shaping.rows import Rows
from pasta.trace_writer import PartWriter

_FUNCTIONS = frozenset({"fee", "FEE", "py-spy", "function", "python_function"})
_OPERATORS = frozenset({"Op", "op", "operator"})
_KERNELS = frozenset({"kernel", "Kernel"})
_OF_AIU = b'"TS5"'
_CORRELATIONS = ("correlation_id", "correlation", "correlationId", "corrid")


class Timed(NamedTuple):
    """An event with a start and perhaps a duration, in ns.

    Attributes:
        number: its ordinal among those that begin.
        arguments: `args`, or what stands in its place, as JSON text.
    """

    number: int
    name: str
    category: str
    pid: Any
    tid: Any
    ts: int
    dur: int | None
    arguments: bytes


class ChromeTables:
    """Appends events to tables.

    Args:
        part: where the rows go.
        losses: where what cannot be kept is counted.
        lanes: what rows of the timeline are.

    Attributes:
        host_events: how many rows each process has on the host.
        threads: process and thread of host rows, with their names where only the rows tell them.
        devices: process and ordinal of the devices with rows.
        first: the earliest time, `None` before there is one.
        last: the latest time.
    """

    def __init__(self, part: PartWriter, losses: Losses, lanes: Lanes) -> None:
        self.host_events: Counter[int] = Counter()
        self.threads: dict[tuple[int, int], str | None] = {}
        self.devices: dict[tuple[int, int], str] = {}
        self.first: int | None = None
        self.last: int | None = None
        self._losses = losses
        self._lanes = lanes
        self._columns = Columns(losses)
        self._numbers: dict[tuple[str, str], int] = {}
        self._homes: dict[tuple[Any, Any, Any], tuple[int, int, str] | None] = {}
        self._launches = 0
        times = ("pid", "ts", "dur")
        self._spans = Rows(
            part, "span", *times, *("tid", "span_id", "level", "name", "external_id", "stack_id")
        )
        self._calls = Rows(
            part, "call", *times, *("tid", "correlation", "external_id", "name", "stack_id")
        )
        device = ("device", "correlation", "external_id", "context", "stream")
        self._kernels = Rows(
            part,
            "kernel",
            *times,
            *device,
            *("launch_id", "graph_id", "graph_node_id", "name"),
            *(f"{size}_{axis}" for size in ("grid", "block") for axis in "xyz"),
            *("registers", "static_shared", "dynamic_shared"),
        )
        self._copies = Rows(part, "copy", *times, *device, "kind", "bytes")
        self._metrics = Rows(part, "metric", "pid", "ts", "device", "launch_id", "name", "value")

    def add_spans(
        self,
        events: list[Event],
        numbers: NDArray[np.int64],
        ts: NDArray[np.int64],
        dur: NDArray[np.int64],
    ) -> list[int]:
        """Add the complete events that are spans of the host.

        Args:
            events: events with sound times.
            numbers: the ordinal of each.
            ts: their starts in ns.
            dur: their durations in ns.

        Returns:
            The places of the events that are something else.
        """
        homes = [self._home(event) for event in events]
        places = [at for at, home in enumerate(homes) if home]
        if places:
            pids, tids, levels = zip(*filter(None, homes), strict=True)
            self.host_events.update(pids)
            start, length = ts[places], dur[places]
            self._extend(int(start.min()), int((start + length).max()))
            none = pa.array(np.zeros(len(places), dtype=np.uint64))
            self._spans.add_columns(
                *(pa.array(pids, pa.int64()), pa.array(start), pa.array(length)),
                *(pa.array(tids, pa.int64()), pa.array(numbers[places].astype(np.uint64))),
                pa.array(levels, pa.string()),
                self._columns.texts([text(events[at].name) for at in places]),
                *(none, none),
            )
        return [at for at, home in enumerate(homes) if not home]

    def forget_lanes(self) -> None:
        """Look lanes up again, since processes or threads have new names."""
        self._homes.clear()

    def add(self, event: Timed) -> None:
        """Add a complete event to the table that its lane, else its category tells."""
        lane = self._lanes.of(event.pid, event.tid)
        if lane.kind is Kind.HOST and event.category in _KERNELS:
            lane = Lane(Kind.DEVICE, self.number(event.pid, "device"), _trailing(event.tid))
        elif lane.kind is Kind.HOST and _OF_AIU in event.arguments:
            lane = Lane(Kind.DEVICE, self.number(event.pid, "device"))
        if lane.kind is Kind.DERIVED:
            self._losses.skip("event that the recorder derives from a device's own: left out")
            return
        self._extend(event.ts, event.ts + (event.dur or 0))
        if lane.kind is Kind.HOST:
            self._add_span(event)
        elif lane.kind is Kind.CALLS:
            self._add_call(event)
        else:
            self._add_device_work(event, lane)

    def add_counter(
        self, name: str, pid: Any, tid: Any, ts: int, arguments: dict[str, Any]
    ) -> None:
        """Add a value of each series of a counter."""
        lane = self._lanes.of(pid, tid)
        device = lane.device if lane.device >= 0 else None
        process = self.number(pid, "pid")
        for series, value in arguments.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                self._losses.skip("counter whose value is no number: left out")
                continue
            full = (
                name
                if len(arguments) == 1 and series in ("value", name, "")
                else f"{name}.{series}"
            )
            try:
                self._metrics.add(process, ts, device, 0, full, float(value))
            except OverflowError:
                self._losses.skip("counter whose value is no number: left out")
                continue
            self._extend(ts, ts)
            if device is None:
                self.host_events[process] += 1

    def number(self, value: Any, what: str) -> int:
        """Return the number of a `pid`, `tid` or `device`; text and large numbers get one."""
        written = str(value)
        known = self._numbers.get((what, written))
        if known is None:
            known = self._numbers[what, written] = self._number(value, written, what)
        return known

    def finish(self) -> None:
        """Append what is held back."""
        for rows in (self._spans, self._calls, self._kernels, self._copies, self._metrics):
            rows.flush()

    def _number(self, value: Any, written: str, what: str) -> int:
        if value is None:
            return 0
        if isinstance(value, float) and value.is_integer():
            written = str(int(value))
        try:
            number = int(written)
        except ValueError:
            number = 1 << 64
        limit = 1 << (31 if what == "device" else 63)
        if -limit <= number < limit:
            return number
        if what == "device":
            return -1
        return self._columns.renumber(written, what, sign=-1 if what == "tid" else 1)

    def _home(self, event: Event) -> tuple[int, int, str] | None:
        """Return process, thread and level of an event that is a span of the host."""
        if event.attr is not ABSENT or (event.cat is None and _OF_AIU in bytes(event.args)):
            return None
        try:
            return self._homes[event.pid, event.tid, event.cat]
        except KeyError:
            pass
        except TypeError:
            return None
        lane, category = self._lanes.of(event.pid, event.tid), text(event.cat)
        home = None
        if lane.kind is Kind.HOST and category not in _KERNELS:
            home = (*self._host(event), _level(category))
        self._homes[event.pid, event.tid, event.cat] = home
        return home

    def _add_span(self, event: Timed) -> None:
        pid, tid = self._host(event)
        self.host_events[pid] += 1
        self._spans.add(
            *(pid, event.ts, event.dur, tid, event.number),
            *(_level(event.category), event.name, 0, 0),
        )

    def _add_call(self, event: Timed) -> None:
        pid, tid = self._host(event)
        self.host_events[pid] += 1
        correlation = _correlation(arguments_of(event.arguments))
        self._calls.add(pid, event.ts, event.dur, tid, correlation, 0, event.name, 0)

    def _host(self, event: Timed | Event) -> tuple[int, int]:
        """Return process and thread of a host row, and keep the thread."""
        pid, tid = self.number(event.pid, "pid"), self.number(event.tid, "tid")
        if (pid, tid) not in self.threads:
            key = (str(event.pid), str(event.tid))
            plain = None if str(tid) == key[1] or event.tid is None else key[1]
            self.threads[pid, tid] = self._lanes.threads.get(key, plain)
        return pid, tid

    def _add_device_work(self, event: Timed, lane: Lane) -> None:
        pid = self.number(event.pid, "pid")
        arguments = arguments_of(event.arguments)
        stream = self.number(event.tid, "tid") if lane.stream is None else lane.stream
        work = (pid, event.ts, event.dur, lane.device, _correlation(arguments), 0, 0, stream)
        label = self._lanes.processes.get(str(event.pid), "")
        self.devices.setdefault((pid, lane.device), label)
        if lane.kind is Kind.COPIES or is_copy(event.name):
            self._copies.add(*work, copy_kind(event.name), copy_bytes(arguments))
            return
        self._launches += 1
        launch = launch_of(arguments)
        self._kernels.add(
            *(*work, self._launches, 0, 0, event.name),
            *(*launch.grid, *launch.block, launch.registers, launch.static, launch.dynamic),
        )

    def _extend(self, first: int, last: int) -> None:
        self.first = first if self.first is None else min(self.first, first)
        self.last = last if self.last is None else max(self.last, last)


def text(value: Any) -> str:
    """Return a name as text, whatever it is in the file."""
    return "" if value is None else str(value)


def _level(category: str) -> str:
    if category in _FUNCTIONS:
        return "function"
    return "operator" if category in _OPERATORS else "annotation"


def _correlation(arguments: dict[str, Any]) -> int:
    return next(filter(None, (whole(arguments.get(name)) for name in _CORRELATIONS)), 0)


def _trailing(tid: Any) -> int | None:
    """Return the number at the end of a label such as `stream 7`."""
    words = str(tid).split()
    return whole(words[-1]) if words else None
