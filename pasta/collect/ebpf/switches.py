"""Intervals off the CPU, from what each CPU tells of its switches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pasta.collect.ebpf.cpu_rounds import CpuRounds
from pasta.collect.losses import Losses
from pasta.collect.shaping.rows import Rows
from pasta.trace_writer import PartWriter

CHUNK = 1 << 20
"""Records that are paired at once; fewer wait until there are so many."""
_THREAD_BITS = 24
_STATES = {
    0x01: "sleeping",
    0x02: "uninterruptible",
    0x04: "stopped",
    0x08: "traced",
    0x10: "dead",
    0x20: "dead",
    0x40: "parked",
    0x80: "idle",
}
_RUNNABLE = "preempted"
_LOST_LINES = "lines of up to 26 switches that bpftrace lost"
_DOUBTFUL = "intervals off the CPU during which switches were lost: left out"
_UNKNOWN_CONTEXT = "switches of which bpftrace lost who left, and where: left out"
_UNPAIRED = "threads that left the CPU twice without coming back: the first interval is left out"
_OPEN = "intervals off the CPU without an end: left out"


def state_name(state: int) -> str:
    """Return why a thread left the CPU, of the `prev_state` of `sched_switch`.

    `preempted`: it could have run on, as where its time was up or it gave way by itself.
    """
    for bit, name in _STATES.items():
        if state & bit:
            return name
    return _RUNNABLE


class Switches:
    """Pairs leaving the CPU with coming back, exactly and in bounded memory.

    Lines of different CPUs come in any order, but each CPU's in its own. So records are paired up to the
    time that all CPUs have told of; as one that idles may be silent, it is asked meanwhile.

    Args:
        part: where rows of `sample` go.
        losses: where what is lost is counted.
        offset: ns from the records' clock to the trace's.
        rounds: knows the CPUs, and asks them.
    """

    def __init__(self, part: PartWriter, losses: Losses, offset: int, rounds: CpuRounds) -> None:
        columns = ("pid", "tid", "ts", "dur", "kind", "state", "stack_id", "weight")
        self._rows = Rows(part, "sample", *columns)
        self._losses = losses
        self._offset = offset
        self._rounds = rounds
        self._told: dict[int, int] = {}
        self._next: dict[int, int] = {}
        self._fields: list[int] = []
        self._gaps: list[tuple[int, int]] = []
        self._waiting = np.zeros((0, 2), np.uint64)
        self._left = np.zeros((0, 3), np.int64)
        self._numbers: dict[int, int] = {0: 0}
        self._contexts: list[tuple[int, int, str, int]] = [(0, 0, "", 0)]

    def know(self, context: int, pid: int, tid: int, state: int, stack_id: int) -> None:
        """Take what a context stands for; it comes before the time of its CPU passes its records."""
        self._numbers[context] = len(self._contexts)
        self._contexts.append((pid, tid, state_name(state), stack_id))

    def take(self, cpu: int, number: int, now: int, fields: Sequence[int]) -> None:
        """Take a line of a CPU.

        Args:
            cpu: the CPU.
            number: of the line, counted from 0 for each CPU.
            now: when it was written, in ns; no later record of the CPU is earlier.
            fields: of each record: when, and (context << 24 | thread that came).
        """
        expected = self._next.get(cpu, 0)
        if number > expected:
            self._losses.fault(_LOST_LINES, number - expected)
            self._gaps.append((self._told.get(cpu, 0), fields[0] if fields else now))
        self._next[cpu] = number + 1
        self._fields += fields
        self.passed(cpu, now)

    def passed(self, cpu: int, now: int) -> None:
        """Take it that a CPU has told of all up to a time."""
        self._told[cpu] = max(now, self._told.get(cpu, 0))
        if len(self._fields) >= 2 * CHUNK:
            self._rounds.ask()
            self._pair(min(self._told.get(one, 0) for one in self._rounds.cpus))

    def finish(self) -> None:
        """Pair what is left."""
        self._pair(None)
        self._losses.skip(_OPEN, len(self._left))
        self._rows.flush()

    def _pair(self, until: int | None) -> None:
        """Append the intervals that ended before `until`, or all."""
        new = np.array(self._fields, np.uint64).reshape(-1, 2)
        self._fields = []
        records = np.concatenate([self._waiting, new])
        early = np.ones(len(records), bool) if until is None else records[:, 0] <= np.uint64(until)
        self._waiting = records[~early]
        left, came = self._events(records[early])
        events = np.concatenate([self._left, left, came])
        # A thread leaves and comes back at different times; columns: thread, time, context or -1.
        events = events[np.lexsort((events[:, 1], events[:, 0]))]
        same = np.append(events[1:, 0] == events[:-1, 0], np.zeros(min(len(events), 1), bool))
        leaves = events[:, 2] >= 0
        back = np.append(~leaves[1:], np.zeros(min(len(events), 1), bool))
        self._losses.fault(_UNPAIRED, int((leaves & same & ~back).sum()))
        self._left = events[leaves & ~same]
        pairs = np.flatnonzero(leaves & same & back)
        self._append(events[pairs], events[pairs + 1, 1])

    def _events(self, records: np.ndarray[Any, Any]) -> tuple[Any, Any]:
        """Return who left and who came, as rows of thread, time, and context (-1 for coming)."""
        times = records[:, 0].astype(np.int64)
        contexts = (records[:, 1] >> np.uint64(_THREAD_BITS)).astype(np.int64)
        threads = (records[:, 1] & np.uint64((1 << _THREAD_BITS) - 1)).astype(np.int64)
        distinct, places = np.unique(contexts, return_inverse=True)
        numbers = np.array([self._numbers.get(int(one), -1) for one in distinct], np.int64)[places]
        self._losses.fault(_UNKNOWN_CONTEXT, int((numbers < 0).sum()))
        who = np.array([context[1] for context in self._contexts], np.int64)
        known = numbers > 0
        left = np.column_stack([who[numbers[known]], times[known], numbers[known]])
        came = np.column_stack([threads, times, np.full(len(times), -1)])
        return left, came

    def _append(self, left: np.ndarray[Any, Any], ends: np.ndarray[Any, Any]) -> None:
        starts = left[:, 1]
        sound = np.ones(len(left), bool)
        for begin, end in self._gaps:
            sound &= (ends < begin) | (starts > end)
        self._losses.fault(_DOUBTFUL, int((~sound).sum()))
        starts, ends, numbers = starts[sound], ends[sound], left[sound, 2]
        spent = ends - starts
        chosen = [self._contexts[number] for number in numbers]
        self._rows.add_columns(
            pa.array([one[0] for one in chosen], pa.int64()),
            pa.array([one[1] for one in chosen], pa.int64()),
            pa.array(starts + self._offset),
            pa.array(spent),
            pa.array(["off_cpu"] * len(chosen), pa.string()),
            pa.array([one[2] for one in chosen], pa.string()),
            pa.array([one[3] for one in chosen], pa.uint64()),
            pa.array(spent.astype(np.float64)),
        )
