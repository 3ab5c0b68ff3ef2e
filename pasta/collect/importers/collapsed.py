"""Importer of collapsed stacks: `outer;inner 12`, as flame graphs and py-spy's raw format use."""

from __future__ import annotations

import re
from functools import lru_cache

from pasta.collect.containers.text_lines import TextLines, first_lines
from pasta.collect.importer import Imported, importer
from pasta.collect.losses import Losses
from pasta.collect.shaping.rows import Rows
from pasta.collect.shaping.stacks import Frame, Stacks
from pasta.collect.sources import Source
from pasta.trace_writer import PartWriter

_LINE = re.compile(r"(?P<stack>.*) (?P<count>\d{1,18}(?:\.\d{1,18})?)\s*")
_PYTHON = re.compile(r"(?P<function>.*) \((?P<file>[^()]*\.pyx?|<[^()]*>)(?::(?P<line>\d{1,9}))?\)")
_PROCESS = re.compile(r'process (\d{1,18})(?::"(.*)")?')
THREAD = re.compile(r"thread \((0x[0-9a-fA-F]{1,15}|\d{1,18})\)(?:: (.*))?")
_COMMAND = re.compile(r"(.*)-(\d{1,18})/(\d{1,18})")
_LINES_LOOKED_AT = 50
_DAMAGED_OF = 4
KIND = "samples"
"""The kind of samples of which only their number is known, not the time they stand for."""


@importer("collapsed")
class Collapsed:
    """Reads one stack and its count from each line; there are no times."""

    format = "collapsed stacks"
    version = 2
    general = False

    def recognises(self, source: Source) -> bool:
        """Tell whether nearly all lines are stacks with counts, one of them of several frames."""
        lines = [line for line in first_lines(source, _LINES_LOOKED_AT) if line.strip()]
        stacks = [line for line in lines if _LINE.fullmatch(line) and "\0" not in line]
        nearly_all = len(lines) - len(stacks) <= len(lines) // _DAMAGED_OF
        return (
            bool(stacks)
            and nearly_all
            and any(";" in line for line in stacks)
            and lines[0][:1] not in ("{", "[")
        )

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append a `sample` without a time for each line."""
        lines = TextLines(source, losses)
        stacks = _CollapsedStacks(part)
        for line in lines:
            found = stack_of(line)
            if found:
                stacks.add(*found)
            elif line.strip():
                losses.fault("line that is no stack with a count: left out", where=repr(line[:60]))
        stacks.finish()
        if lines.cut:
            losses.skip("last line without an end: its count may be cut short")
        return Imported(pid=stacks.first_pid)


def stack_of(line: str) -> tuple[str, float] | None:
    """Return the stack and the count that a line tells; `None`: it is no such line."""
    found = _LINE.fullmatch(line)
    return (found["stack"].strip(), float(found["count"])) if found else None


class _CollapsedStacks:
    """Rows of stacks; processes and threads are told by outermost frames."""

    def __init__(self, part: PartWriter) -> None:
        self.first_pid = 0
        self._part = part
        self._rows = Rows(part, "sample", "pid", "tid", "kind", "stack_id", "weight")
        self._stacks: dict[int, Stacks] = {}
        self._processes: dict[int, str | None] = {}
        self._threads: dict[tuple[int, int], str | None] = {}

    def add(self, stack: str, count: float) -> None:
        """Add a sample row; frames are parted by `;`, the outermost first."""
        texts = stack.split(";") if stack else []
        pid, tid = self._origin(texts[:2])
        if pid not in self._stacks:
            self.first_pid = self.first_pid or pid
            self._stacks[pid] = Stacks(self._part, pid)
            self._processes.setdefault(pid, None)
        stack_id = self._stacks[pid].id_of([frame_of(text) for text in texts])
        self._rows.add(pid, tid, KIND, stack_id, count)

    def finish(self) -> None:
        """Write what is left, and a row for each process and each thread that was named."""
        self._rows.flush()
        for stacks in self._stacks.values():
            stacks.flush()
        processes = Rows(self._part, "process", "pid", "command", "stack_id")
        for pid, command in self._processes.items():
            processes.add(pid, command, 0)
        processes.flush()
        threads = Rows(self._part, "thread", "pid", "tid", "name", "stack_id")
        for (pid, tid), name in self._threads.items():
            threads.add(pid, tid, name, 0)
        threads.flush()

    def _origin(self, outermost: list[str]) -> tuple[int, int | None]:
        """Return process and thread that the outermost frames name; 0 and `None`: unknown."""
        pid, tid = 0, None
        for text in outermost:
            if process := _PROCESS.fullmatch(text):
                pid = int(process[1])
                self._processes[pid] = process[2]
            elif thread := THREAD.fullmatch(text):
                tid = thread_number(thread[1])
                self._threads[pid, tid] = thread[2]
            elif (command := _COMMAND.fullmatch(text)) and text == outermost[0]:
                pid, tid = int(command[2]), int(command[3])
                self._processes.setdefault(pid, command[1])
                self._threads[pid, tid] = command[1]
        return pid, tid


def thread_number(text: str) -> int:
    """Return a thread's id, which may be written in base 16."""
    return int(text, 16 if text.startswith("0x") else 10)


@lru_cache(maxsize=1 << 16)
def frame_of(text: str) -> Frame:
    """Return the frame that a part of a stack tells of."""
    found = _PYTHON.fullmatch(text)
    if found is None:
        return Frame(text)
    return Frame(found["function"], found["file"], int(found["line"] or 0), "python")
