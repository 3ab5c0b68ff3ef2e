"""Rows of speedscope's profiles."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice, zip_longest
from typing import Any, NamedTuple

import pyarrow as pa
from msgspec import Raw

from pasta.collect.importers.speedscope.document import (
    Document,
    Lists,
    Profile,
    SharedFrame,
)
from pasta.collect.losses import Losses
from pasta.collect.shaping.decimal_time import LIMIT
from pasta.collect.shaping.open_spans import OpenSpans
from pasta.collect.shaping.rows import Rows
from pasta.collect.shaping.stacks import Frame, Stacks
from pasta.collect.shaping.units import scaled
from pasta.trace_writer import PartWriter

_NANOSECONDS = {
    "nanoseconds": 1,
    "microseconds": 1_000,
    "milliseconds": 1_000_000,
    "seconds": 1_000_000_000,
}
_KIND_BY_UNIT = {"none": "samples", "bytes": "bytes"}
_PYTHON = (".py", ".pyx", ">")
_ORIGIN = re.compile(r'(?:Process (\d{1,18}) )?Thread (\d{1,18})(?: "(.*)")?')
_LINE_MAX = (1 << 31) - 1
_BLOCK = 1 << 14
_HELD_MAX = 1 << 16


class _Begun(NamedTuple):
    """A frame that has been opened: its ordinal, its place among the frames, and its stack."""

    number: int
    frame: int
    ts: int
    stack: int


class Profiles:
    """Turns profiles into rows.

    Args:
        document: the file.
        lists: its long lists.
        part: where rows go.
        losses: where what is left out is counted.

    Attributes:
        first_pid: the process of the first profile; 0: unknown.
    """

    def __init__(self, document: Document, lists: Lists, part: PartWriter, losses: Losses) -> None:
        self.first_pid = 0
        self._lists = lists
        self._frames = [_frame(shared) for shared in document.shared.frames]
        self._command = _text(document.name) or _text(document.exporter)
        self._part = part
        self._losses = losses
        columns = ("pid", "tid", "ts", "dur")
        self._samples = Rows(part, "sample", *columns, "kind", "stack_id", "weight")
        self._spans = Rows(
            part, "span", *columns, "span_id", "level", "name", "external_id", "stack_id"
        )
        self._stacks: dict[int, Stacks] = {}
        self._stack_ids: dict[tuple[int, tuple[int, ...]], int] = {}
        self._threads: dict[tuple[int, int], str] = {}
        self._extents: dict[int, list[int]] = {}
        self._begun = 0

    def add(self, number: int, profile: Profile) -> None:
        """Add a profile, the `number`th of the file."""
        pid, tid = self._origin(number, profile.name)
        self._stacks.setdefault(pid, Stacks(self._part, pid))
        if profile.type == "sampled":
            self._add_samples(pid, tid, profile)
        elif profile.type == "evented" and profile.unit in _NANOSECONDS:
            self._add_events(pid, tid, profile)
        elif profile.type == "evented":
            self._losses.skip(f"evented profile in '{profile.unit[:20]}', not in time: left out")
        else:
            self._losses.fault("profile of no known type: left out", where=f"profile {number}")

    def finish(self) -> None:
        """Append what is held back."""
        self._samples.flush()
        self._spans.flush()
        for stacks in self._stacks.values():
            stacks.flush()
        processes = Rows(self._part, "process", "pid", "command", "started", "ended", "stack_id")
        for pid in self._stacks:
            times = self._extents.get(pid, [])
            processes.add(pid, self._command, min(times, default=None), max(times, default=None), 0)
        processes.flush()
        threads = Rows(self._part, "thread", "pid", "tid", "name", "stack_id")
        for (pid, tid), name in self._threads.items():
            threads.add(pid, tid, name, 0)
        threads.flush()

    def _origin(self, number: int, name: str) -> tuple[int, int]:
        """Return process and thread that a profile's name tells, else 0 and its number."""
        found = _ORIGIN.fullmatch(name)
        pid, tid = (int(found[1] or 0), int(found[2])) if found else (0, number)
        self.first_pid = self.first_pid or pid
        self._threads[pid, tid] = (found[3] if found else None) or name
        return pid, tid

    def _add_samples(self, pid: int, tid: int, profile: Profile) -> None:
        factor = _NANOSECONDS.get(profile.unit)
        kind = "on_cpu" if factor else _KIND_BY_UNIT.get(profile.unit, profile.unit)
        now = self._time(profile.start, factor) if factor else None
        pairs = zip_longest(self._lists.samples(profile), self._lists.weights(profile))
        for block in _blocks(pairs):
            weights = self._weights([weight for _, weight in block], factor)
            for (frames, _), weight in zip(block, weights, strict=True):
                stack = None if frames is None else self._stack_id(pid, frames)
                if stack is None or weight is None or weight < 0:
                    self._losses.fault("sample without frames or a weight: left out")
                    continue
                self._samples.add(pid, tid, now, None, kind, stack, float(weight))
                if now is not None:
                    self._extend(pid, now, now + int(weight))
                    now = min(now + int(weight), LIMIT)

    def _weights(self, texts: list[Raw | None], factor: int | None) -> list[Any]:
        """Return weights in ns, or as they are where their unit is no time."""
        if factor:
            return self._times(texts, factor)
        return [_number(text) for text in texts]

    def _add_events(self, pid: int, tid: int, profile: Profile) -> None:
        open_frames: OpenSpans[_Begun] = OpenSpans()
        factor = _NANOSECONDS[profile.unit]
        for block in _blocks(self._lists.events(profile)):
            times = self._times([event.at for event in block], factor)
            for event, ts in zip(block, times, strict=True):
                if ts is None or not 0 <= event.frame < len(self._frames):
                    self._losses.fault("event without a time or a known frame: left out")
                elif event.type == "O":
                    frames = [begun.frame for begun in open_frames.of(tid)]
                    stack = self._stack_id(pid, [*frames, event.frame]) or 0
                    self._begun += 1
                    open_frames.begin(tid, _Begun(self._begun, event.frame, ts, stack))
                else:
                    begun = open_frames.end(tid, _is_of(event.frame))
                    self._close(pid, tid, begun, ts)
        for begun in open_frames.left_open():
            self._losses.fault("begin without an end: kept as unfinished", 1, begun.ts)
            self._add_span(pid, tid, begun, None)

    def _close(self, pid: int, tid: int, begun: _Begun | None, ts: int) -> None:
        if begun is None:
            self._losses.fault("end without a begin: left out", 1, ts)
        elif ts < begun.ts:
            self._losses.fault("event with a negative duration: kept as unfinished", 1, begun.ts)
            self._add_span(pid, tid, begun, None)
        else:
            self._add_span(pid, tid, begun, ts - begun.ts)

    def _add_span(self, pid: int, tid: int, begun: _Begun, dur: int | None) -> None:
        name = self._frames[begun.frame].function
        self._spans.add(pid, tid, begun.ts, dur, begun.number, "function", name, 0, begun.stack)
        self._extend(pid, begun.ts, begun.ts + (dur or 0))

    def _stack_id(self, pid: int, places: list[int]) -> int | None:
        """Return the stack of frames, outermost first; `None`: one of them is not known."""
        key = (pid, tuple(places))
        known = self._stack_ids.get(key)
        if known is None:
            if not all(0 <= place < len(self._frames) for place in places):
                return None
            if len(self._stack_ids) >= _HELD_MAX:
                self._stack_ids.clear()
            known = self._stacks[pid].id_of([self._frames[place] for place in places])
            self._stack_ids[key] = known
        return known

    def _time(self, text: Raw, factor: int) -> int:
        return self._times([text], factor)[0] or 0

    def _times(self, texts: list[Raw | None], factor: int) -> list[int | None]:
        """Return times in ns; what is no time is `None`."""
        column = pa.array([None if text is None else _plain(text) for text in texts], pa.string())
        times = scaled(column, factor).to_pylist()
        return [time if time is not None and abs(time) < LIMIT else None for time in times]

    def _extend(self, pid: int, first: int, last: int) -> None:
        known = self._extents.setdefault(pid, [first, last])
        known[0], known[1] = min(known[0], first), max(known[1], last)


def _blocks(items: Iterator[Any]) -> Iterator[list[Any]]:
    while block := list(islice(items, _BLOCK)):
        yield block


def _is_of(frame: int) -> Callable[[_Begun], bool]:
    return lambda begun: begun.frame == frame


def _plain(text: Raw) -> str:
    return bytes(text).decode(errors="replace")


def _number(text: Raw | None) -> float | None:
    try:
        return None if text is None else float(_plain(text))
    except ValueError:
        return None


def _frame(shared: SharedFrame) -> Frame:
    file, line = _text(shared.file) or "", shared.line
    language = "python" if file.endswith(_PYTHON) else ""
    known = line if type(line) is int and 0 <= line <= _LINE_MAX else 0
    return Frame(_text(shared.name) or "", file, known, language)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
