"""Rows of what `py-spy record --format raw --subprocesses --threads` prints.

A line is `process 1:"a";process 2:"b";thread (3): name;outer (file:line);inner (file:line) COUNT`: the
processes are the program's and those below it down to the one that was sampled, each with its command as it is,
lines and semicolons included.
"""

from __future__ import annotations

import re
from functools import lru_cache

from pasta.collect.companions.cpu.events import CLOCK
from pasta.collect.importers.collapsed import THREAD, frame_of, stack_of, thread_number
from pasta.collect.losses import Losses
from pasta.collect.shaping.rows import Rows
from pasta.collect.shaping.stacks import Frame, Stacks
from pasta.trace_writer import PartWriter

_NATIVE = re.compile(r"(?P<function>.*) \((?P<library>[^()]*?)(?::(?P<line>\d{1,9}))?\)")
_UNKNOWN = "?"
_PROCESS_BEGINS = re.compile(r'process \d{1,18}:"')
_PROCESS = re.compile(r'process (\d{1,18}):"(.*?)";(?=process \d{1,18}:"|thread \()', re.DOTALL)
_WAITING = (
    ("/threading.py", ("wait", "_wait_for_tstate_lock")),
    ("/selectors.py", ("select",)),
)
_TEXT_MAX = 1 << 16
_SENSELESS = "line that is no stack of a process with a count: left out"
_NANOSECONDS = 1_000_000_000


class PySpyStacks:
    """Turns lines into rows of `sample`, `frame`, `thread` and `process`; samples have no time.

    Args:
        part: where rows go.
        losses: where lines that make no sense are counted.
        frequency: samples a second; each stands for the time between two.
        idle: whether threads that wait are wanted too.

    Attributes:
        sampled_seconds: what all samples so far stand for.
    """

    def __init__(self, part: PartWriter, losses: Losses, frequency: int, *, idle: bool) -> None:
        self._idle = idle
        self._part = part
        self._losses = losses
        self._weight = _NANOSECONDS / frequency
        self._rows = Rows(part, "sample", "pid", "tid", "kind", "stack_id", "weight")
        self._stacks: dict[int, Stacks] = {}
        self._processes: dict[int, tuple[int | None, str]] = {}
        self._threads: dict[tuple[int, int], str | None] = {}
        self._held = ""
        self.sampled_seconds = 0.0

    def take(self, line: str) -> None:
        """Take one line; a command that has several makes one of them all."""
        text = f"{self._held}\n{line}" if self._held else line
        if self._add(line):
            self._refuse(self._held)
        elif self._held and self._add(text):
            self._held = ""
        elif _PROCESS_BEGINS.match(text) and len(text) < _TEXT_MAX:
            self._held = text
        else:
            self._refuse(text)

    def finish(self) -> None:
        """Append what is held back."""
        self._refuse(self._held)
        self._rows.flush()
        for stacks in self._stacks.values():
            stacks.flush()
        processes = Rows(self._part, "process", "pid", "parent_pid", "command")
        for pid, (parent, command) in self._processes.items():
            processes.add(pid, parent, command)
        processes.flush()
        threads = Rows(self._part, "thread", "pid", "tid", "name")
        for (pid, tid), name in self._threads.items():
            threads.add(pid, tid, name)
        threads.flush()

    def _refuse(self, text: str) -> None:
        if text.strip():
            self._losses.fault(_SENSELESS)
        self._held = ""

    def _add(self, text: str) -> bool:
        """Add a stack; tell whether the text is one."""
        processes: list[tuple[int, str]] = []
        end = 0
        while process := _PROCESS.match(text, end):
            processes.append((int(process[1]), process[2]))
            end = process.end()
        found = stack_of(text[end:])
        if not processes or found is None:
            return False
        parent = None
        for pid, command in processes:
            self._processes.setdefault(pid, (parent, command))
            parent = pid
        texts = found[0].split(";")
        tid = self._thread(pid, texts)
        frames = [_frame(text) for text in texts]
        if frames and _waits(frames[-1]) and not self._idle:
            return True
        stacks = self._stacks.setdefault(pid, Stacks(self._part, pid))
        stack_id = stacks.id_of(frames)
        weight = found[1] * self._weight
        self.sampled_seconds += weight / _NANOSECONDS
        self._rows.add(pid, tid, CLOCK, stack_id, weight)
        return True

    def _thread(self, pid: int, texts: list[str]) -> int | None:
        """Take the thread off a stack's front, if it is there."""
        thread = THREAD.fullmatch(texts[0]) if texts else None
        if thread is None:
            return None
        del texts[0]
        tid = thread_number(thread[1])
        self._threads[pid, tid] = thread[2] or self._threads.get((pid, tid))
        return tid


def _waits(innermost: Frame) -> bool:
    """Tell whether a thread waits, by where it is: in a function of Python's library that does nothing else.

    py-spy leaves such threads out itself, but since Python 3.11 functions have their class before their name
    (`Condition.wait`), by which it does not know them (0.4). What it asks first, whether the system runs the
    thread, is true of one that was just stopped for a sample.
    """
    function = innermost.function.rpartition(".")[2]
    return any(innermost.file.endswith(file) and function in names for file, names in _WAITING)


@lru_cache(maxsize=1 << 16)
def _frame(text: str) -> Frame:
    """Return a frame; one that is no Python's has a library in the place of a file."""
    frame = frame_of(text)
    native = None if frame.language else _NATIVE.fullmatch(text)
    if native is None:
        return frame
    place = native["library"]
    if ".so" in place or not native["line"]:
        return Frame(native["function"], library="" if place == _UNKNOWN else place)
    return Frame(native["function"], place, int(native["line"]))
