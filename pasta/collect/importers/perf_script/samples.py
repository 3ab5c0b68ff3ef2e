"""Rows of samples, and of intervals off the CPU, from the lines of `perf script`."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pasta.collect.importers.perf_script.lines import (
    Head,
    frame_of,
    head_of,
    next_thread,
    records_lost,
    source_of,
)
from pasta.collect.importers.perf_script.tasks import Tasks
from pasta.collect.losses import Losses
from pasta.collect.shaping.rows import Rows
from pasta.collect.shaping.stacks import Frame, Stacks
from pasta.trace_writer import PartWriter

_CLOCKS = frozenset({"cpu-clock", "task-clock"})
_CYCLES = frozenset({"cycles", "cpu-cycles", "cpu_core/cycles/", "cpu_atom/cycles/", "cpu/cycles/"})
_SWITCH = "sched:sched_switch"
_OUT, _IN = "PERF_RECORD_SWITCH OUT", "PERF_RECORD_SWITCH IN"
_OF_CPUS = "PERF_RECORD_SWITCH_CPU_WIDE "
_LOST = "samples that perf lost, as it was too slow"
_IDLE = 0
_KNOWN_MAX = 1 << 16


class Samples:
    """Turns lines into rows.

    Args:
        part: where rows go.
        losses: where what is left out is counted.
        offset: ns that are added to every time.
        kinds: event, as perf prints it -> kind of its samples; all others are told by their names.

    Attributes:
        first_pid: the process of the first sample; 0: there is none.
    """

    def __init__(
        self,
        part: PartWriter,
        losses: Losses,
        *,
        offset: int = 0,
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        self.first_pid = 0
        self._offset = offset
        self._kinds = kinds or {}
        self._part = part
        self._losses = losses
        self._tasks = Tasks(part, losses)
        columns = ("pid", "tid", "ts", "dur", "kind", "stack_id", "weight")
        self._rows = Rows(part, "sample", *columns)
        self._stacks: dict[int, Stacks] = {}
        self._head: Head | None = None
        self._pid = 0
        self._lines: list[str] = []
        self._frames: dict[str, Frame] = {}
        self._stack_ids: dict[tuple[int, tuple[str, ...]], int] = {}
        self._on_cpu = ""
        self._left: dict[int, tuple[int, int, int]] = {}

    @property
    def pids(self) -> Collection[int]:
        """The processes that were told of so far."""
        return self._tasks.pids

    def take(self, line: str) -> None:
        """Take one line."""
        if not line or line.isspace():
            self._end_sample()
        elif line in self._frames and self._head:
            self._lines.append(line)
        elif line.startswith("#"):
            self._tasks.take_header(line)
        elif not line.startswith("\t") and (head := head_of(line)):
            self._end_sample()
            self._begin(head._replace(ts=head.ts + self._offset) if head.ts else head)
        else:
            self._take_frame(line)

    def finish(self, *, cut: bool) -> None:
        """Append what is held back.

        Args:
            cut: whether the last sample may lack frames, and so is left out.
        """
        if not cut:
            self._end_sample()
        self._rows.flush()
        for stacks in self._stacks.values():
            stacks.flush()
        self._losses.skip("interval off the CPU without an end: left out", len(self._left))
        self._tasks.finish()

    def _begin(self, head: Head) -> None:
        pid = self._tasks.process_of(head)
        if not head.record:
            self._head, self._pid = head, pid
            self._lines = [f"\t{head.rest}"] if head.rest.endswith(")") else []
        elif head.record.removeprefix(_OF_CPUS).startswith((_OUT, "OUT")):
            self._leave(pid, head, 0)
        elif head.record.removeprefix(_OF_CPUS).startswith((_IN, "IN")):
            self._come_back(head.tid, head.ts)
        elif lost := records_lost(head.record):
            self._losses.fault(_LOST, lost, head.ts)
        else:
            self._tasks.take_record(head)

    def _take_frame(self, line: str) -> None:
        frame = frame_of(line)
        if self._head is None or (frame is None and not (self._lines and source_of(line))):
            self._losses.fault("line of no known form: left out", where=f"'{line.strip()[:60]}'")
            return
        if frame is not None:
            if len(self._frames) >= _KNOWN_MAX:
                self._frames.clear()
            self._frames[line] = frame
        self._lines.append(line)

    def _end_sample(self) -> None:
        head, self._head = self._head, None
        if head is None:
            return
        pid = self._pid
        self.first_pid = self.first_pid or pid
        stack = self._stack_id(pid, tuple(self._lines))
        if head.event == _SWITCH and _SWITCH not in self._kinds:
            if (tid := next_thread(head.rest)) is not None:
                self._come_back(tid, head.ts)
            self._leave(pid, head, stack)
            return
        kind = self._kind(head.event)
        weight = None if head.period is None else float(head.period)
        self._rows.add(pid, head.tid, head.ts, None, kind, stack, weight)

    def _kind(self, event: str) -> str:
        """Return `on_cpu` for the first clock, whose periods are ns, else the event's name."""
        if event in self._kinds:
            return self._kinds[event]
        plain = event.partition(":")[0] if event.count(":") < 2 else event
        if plain in _CYCLES:
            return plain
        if plain not in _CLOCKS:
            return event or "sample"
        self._on_cpu = self._on_cpu or plain
        return "on_cpu" if plain == self._on_cpu else plain

    def _leave(self, pid: int, head: Head, stack: int) -> None:
        if head.tid != _IDLE:
            self._left.setdefault(head.tid, (head.ts, pid, stack))

    def _come_back(self, tid: int, ts: int) -> None:
        left = self._left.pop(tid, None)
        if left is None:
            return
        since, pid, stack = left
        if ts < since:
            self._losses.fault("interval off the CPU that ends before it starts: left out")
            return
        self._rows.add(pid, tid, since, ts - since, "off_cpu", stack, float(ts - since))

    def _stack_id(self, pid: int, lines: tuple[str, ...]) -> int:
        """Return the stack of frames, printed innermost first."""
        if not lines:
            return 0
        if (pid, lines) not in self._stack_ids:
            if len(self._stack_ids) >= _KNOWN_MAX:
                self._stack_ids.clear()
            stacks = self._stacks.setdefault(pid, Stacks(self._part, pid))
            self._stack_ids[pid, lines] = stacks.id_of(self._frames_of(lines))
        return self._stack_ids[pid, lines]

    def _frames_of(self, lines: tuple[str, ...]) -> list[Frame]:
        frames: list[Frame] = []
        for line in lines:
            frame = self._frames.get(line) or frame_of(line)
            if frame is not None:
                frames.append(frame)
            elif frames and (source := source_of(line)):
                frames[-1] = frames[-1]._replace(file=source[0], line=source[1])
        return frames[::-1]
