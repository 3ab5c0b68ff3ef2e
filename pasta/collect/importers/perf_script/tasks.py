"""Processes and threads, as far as the lines of `perf script` tell of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pasta.collect.importers.perf_script.lines import (
    Head,
    fork_or_exit,
    process_mapped,
    thread_named,
)
from pasta.collect.losses import Losses
from pasta.collect.shaping.rows import Rows
from pasta.trace_writer import PartWriter

_IDLE = 0
_HOST = "# hostname : "
_UNPRINTED = (
    "thread whose process is not printed: taken as a process of its own; print with -F +pid"
)


@dataclass
class _Task:
    """A process or a thread: its name, when it was first and last seen, or started and ended."""

    name: str = ""
    started: int | None = None
    ended: int | None = None
    parent: int | None = None
    over: bool = False

    def seen(self, ts: int) -> None:
        """Take note that it ran at `ts`, ns; 0: nobody knows when."""
        if ts == 0:
            return
        if self.started is None or ts < self.started:
            self.started = ts
        if self.ended is None or (ts > self.ended and not self.over):
            self.ended = ts


class Tasks:
    """Gathers processes and threads.

    Args:
        part: where their rows go.
        losses: where what is left open is counted.
    """

    def __init__(self, part: PartWriter, losses: Losses) -> None:
        self._part = part
        self._losses = losses
        self._host: str | None = None
        self._process_of: dict[int, int] = {}
        self._assumed: set[int] = set()
        self._processes: dict[int, _Task] = {}
        self._threads: dict[tuple[int, int], _Task] = {}

    @property
    def pids(self) -> Collection[int]:
        """The processes that were seen so far."""
        return self._processes.keys()

    def take_header(self, line: str) -> None:
        """Take a line of the head of the file."""
        if line.startswith(_HOST):
            self._host = line.removeprefix(_HOST).strip()

    def process_of(self, head: Head) -> int:
        """Return the process of an event, and keep that it was seen."""
        if head.ts == 0:  # what perf makes up of tasks that ran before
            return _IDLE
        pid = head.pid
        if pid is None and head.record:
            pid = _process_told(head.record)
        if pid is not None:
            self._process_of[head.tid] = pid
        elif head.tid not in self._process_of:
            self._assumed.add(head.tid)
        pid = self._process_of.get(head.tid, head.tid)
        self._see(pid, head.tid, head.command, head.ts)
        return pid

    def take_record(self, head: Head) -> None:
        """Take a record of a process that was started, ended or named."""
        if told := fork_or_exit(head.record):
            what, pid, tid, parent = told
            self._process_of[tid] = pid
            if what == "FORK":
                self._start(pid, tid, parent, head)
            else:
                self._end(pid, tid, parent, head)
        elif named := thread_named(head.record):
            name, pid, tid = named
            self._process_of[tid] = pid
            self._see(pid, tid, name, head.ts)

    def finish(self) -> None:
        """Append the rows."""
        processes = Rows(
            self._part,
            "process",
            *("pid", "parent_pid", "host", "command", "started", "ended", "stack_id"),
        )
        for pid, task in self._processes.items():
            processes.add(pid, task.parent, self._host, task.name, task.started, task.ended, 0)
        processes.flush()
        threads = Rows(self._part, "thread", "pid", "tid", "name", "started", "ended", "stack_id")
        for (pid, tid), task in self._threads.items():
            threads.add(pid, tid, task.name, task.started, task.ended if task.over else None, 0)
        threads.flush()
        self._losses.skip(_UNPRINTED, len(self._assumed - self._process_of.keys()))

    def _see(self, pid: int, tid: int, name: str, ts: int) -> None:
        thread = self._threads.get((pid, tid))
        if thread is None:
            thread = self._threads[pid, tid] = _Task()
            self._processes.setdefault(pid, _Task(name))
        process = self._processes[pid]
        process.seen(ts)
        thread.seen(ts)
        thread.name = name
        if pid == tid:
            process.name = name

    def _start(self, pid: int, tid: int, parent: int, head: Head) -> None:
        self._see(pid, tid, head.command, head.ts)
        if pid != parent:
            self._processes[pid].parent = parent

    def _end(self, pid: int, tid: int, parent: int, head: Head) -> None:
        self._start(pid, tid, parent, head)
        self._threads[pid, tid].over = True
        if pid == tid:
            self._processes[pid].over = True


def _process_told(record: str) -> int | None:
    """Return the process in which perf's own record was written; `None`: it does not tell."""
    if told := fork_or_exit(record):
        return told[3] if told[0] == "FORK" else told[1]
    named = thread_named(record)
    return named[1] if named else process_mapped(record)
