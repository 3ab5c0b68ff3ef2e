"""Processes and threads, of what the kernel says when they start, run another program and end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pasta.collect.losses import Losses
from pasta.collect.shaping.rows import Rows
from pasta.trace_writer import PartWriter

_THREAD, _PARENT = 0x10000, 0x8000  # CLONE_THREAD, CLONE_PARENT
_GROUP_EXIT = 0x4  # SIGNAL_GROUP_EXIT
_AGAIN = "process and thread ids that were given twice: only the last one is told"
_UNSEEN = "ends of threads whose start was not seen: left out"


class Start(NamedTuple):
    """The start of a thread.

    Attributes:
        parent: the process that asked for it.
        thread: its id.
        flags: of the system call `clone`.
        name: its name at first.
        stack_id: of the code that asked for it.
    """

    parent: int
    thread: int
    flags: int
    name: str
    stack_id: int

    @property
    def process(self) -> int:
        """The process that it is in: the parent, or a new one."""
        return self.parent if self.flags & _THREAD else self.thread


@dataclass
class _Process:
    parent: int | None
    command: str | None
    started: int | None
    stack_id: int
    threads: int = 1
    ended: int | None = None
    status: int | None = None


@dataclass
class _Thread:
    process: int
    name: str | None
    started: int | None
    stack_id: int
    ended: int | None = None


def exit_code(status: int) -> int:
    """Return the exit code of a status as `wait` gives it; negative: the signal that ended it."""
    signal = status & 0x7F
    return -signal if signal else status >> 8 & 0xFF


class TaskTree:
    """Gathers what happened, from all CPUs in any order, and tells it in the order of time.

    Args:
        target: the process at the root, which runs already.
        host: name of the machine.
        offset: ns from the kernel's monotonic clock to the trace's.
    """

    def __init__(self, target: int, host: str, offset: int) -> None:
        self._happened: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._host = host
        self._offset = offset
        self._target = target
        self._processes = {target: _Process(None, None, None, 0)}
        self._threads = {target: _Thread(target, None, None, 0)}
        self._again = self._unseen = 0

    def started(self, now: int, start: Start) -> None:
        """Take it that a thread was started, at a time of the kernel's clock, in ns."""
        self._add(now, self._start, start)

    def replaced(self, now: int, process: int, thread: int, command: str) -> None:
        """Take it that a thread has let its process run another program."""
        self._add(now, self._replace, process, thread, command)

    def named(self, now: int, thread: int, name: str) -> None:
        """Take it that a thread has a name."""
        self._add(now, self._name, thread, name)

    def ended(self, now: int, process: int, thread: int, status: int, of_all: int | None) -> None:
        """Take it that a thread ended.

        Args:
            now: when.
            process: its process.
            thread: the thread.
            status: its own.
            of_all: the status of a process that ended as a whole; `None`: only the thread ended.
        """
        self._add(now, self._end, process, thread, status, of_all)

    def append_to(self, part: PartWriter, losses: Losses) -> None:
        """Append rows of `process` and `thread`, but not of the target process, which its launcher knows."""
        for now, _, happen, values in sorted(self._happened, key=lambda event: event[:2]):
            happen(now + self._offset, *values)
        losses.fault(_AGAIN, self._again)
        losses.fault(_UNSEEN, self._unseen)
        columns = (
            "pid",
            "parent_pid",
            "host",
            "command",
            "started",
            "ended",
            "exit_code",
            "stack_id",
        )
        rows = Rows(part, "process", *columns)
        for pid, of in self._processes.items():
            if pid != self._target:
                code = None if of.status is None or of.ended is None else exit_code(of.status)
                about = (of.parent, self._host, of.command, of.started, of.ended, code, of.stack_id)
                rows.add(pid, *about)
        rows.flush()
        threads = Rows(part, "thread", "pid", "tid", "name", "started", "ended", "stack_id")
        for tid, one in self._threads.items():
            threads.add(one.process, tid, one.name, one.started, one.ended, one.stack_id)
        threads.flush()

    def _add(self, now: int, happen: Callable[..., None], *values: Any) -> None:
        self._happened.append((now, len(self._happened), happen, values))

    def _start(self, now: int, start: Start) -> None:
        starter = self._processes.get(start.parent)
        self._again += start.thread in self._threads
        self._threads[start.thread] = _Thread(start.process, start.name, now, start.stack_id)
        if start.process == start.thread:
            command = starter.command if starter else None
            above = starter.parent if starter and start.flags & _PARENT else start.parent
            self._processes[start.thread] = _Process(above, command, now, start.stack_id)
        elif starter:
            starter.threads += 1

    def _replace(self, now: int, process: int, thread: int, command: str) -> None:
        of = self._processes.setdefault(process, _Process(None, None, None, 0))
        of.command = command
        if thread != process and {thread, process} <= self._threads.keys():
            self._threads[thread].ended = now  # it goes on as the first thread, which had to end
            self._threads[process].ended = None

    def _name(self, _now: int, thread: int, name: str) -> None:
        if thread in self._threads:
            self._threads[thread].name = name

    def _end(self, now: int, process: int, thread: int, status: int, of_all: int | None) -> None:
        if thread not in self._threads or process not in self._processes:
            self._unseen += 1
            return
        self._threads[thread].ended = now
        of = self._processes[process]
        of.threads -= 1
        if of_all is not None:
            of.status = of_all
        elif thread == process:
            of.status = status
        if of.threads == 0:
            of.ended = now


def group_status(flags: int, status: int) -> int | None:
    """Return the status of a process that ends as a whole, by the flags of its signals; `None`: not so."""
    return status if flags & _GROUP_EXIT else None
