"""Collector `processes`: which process and thread started which, by which code, and how they ended."""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Sequence
from typing import ClassVar

from pasta.collect.companions.companion import Watch
from pasta.collect.ebpf.bpftrace import Bpftrace
from pasta.collect.ebpf.task_tree import Start, TaskTree, group_status

_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")
_CUT = "commands of over 2,560 bytes: cut"


def unescaped(text: str) -> bytes:
    r"""Return the bytes that bpftrace wrote as text, where `\x00` stands for what cannot be shown."""
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), text.encode())


def _name(text: str) -> str:
    return unescaped(text).partition(b"\0")[0].decode("utf-8", "replace")


class Processes(Bpftrace):
    """Watches how processes and threads begin and end; see `scripts/processes.bt`."""

    name = "processes"
    script = "processes.bt"
    with_stack: ClassVar[frozenset[str]] = frozenset({"N"})
    counted: ClassVar[frozenset[str]] = frozenset({"N", "E", "A", "M", "Q"})

    def begin(self, watch: Watch) -> None:
        """Make ready for the target's tree of processes."""
        self._tree = TaskTree(watch.target, socket.gethostname(), watch.offset)
        self._replaced: list[int] = []
        self._arguments = b""

    def event(self, words: list[str], stack: list[str]) -> None:
        """Take starts, new programs with their arguments, names and ends."""
        match words:
            case ["N", now, parent, _, thread, flags, *name]:
                start = Start(int(parent), int(thread), int(flags), _name(" ".join(name)), 0)
                self._start(int(now), start, stack)
            case ["E", now, process, thread, size]:
                self._replaced = [int(now), int(process), int(thread), int(size)]
                self._arguments = b""
            case ["A", _, *text]:
                self._arguments += unescaped(" ".join(text))
            case ["M", now, _, thread, *name]:
                self._tree.named(int(now), int(thread), _name(" ".join(name)))
            case ["Q", now, process, thread, status, of_all, flags]:
                whole = group_status(int(flags), int(of_all))
                self._tree.ended(int(now), int(process), int(thread), int(status), whole)

    def finish(self) -> Sequence[str]:
        """Append all processes and threads."""
        self._end_arguments()
        self._tree.append_to(self.watch.part, self.watch.losses)
        return super().finish()

    def take(self, line: str) -> None:
        """Take a line; what follows the arguments of a program ends them."""
        if self._replaced and not line.startswith("A "):
            self._end_arguments()
        super().take(line)

    def _start(self, now: int, start: Start, stack: list[str]) -> None:
        stack_id = self.texts.stack_id(start.parent, stack, owner=start.process) if stack else 0
        if start.process != start.parent:
            self.texts.names.forked(start.parent, start.process)
        self._tree.started(now, start._replace(stack_id=stack_id))

    def _end_arguments(self) -> None:
        if not self._replaced:
            return
        now, process, thread, size = self._replaced
        self._replaced = []
        cut = len(self._arguments) < size
        arguments = self._arguments.removesuffix(b"\0").split(b"\0")
        command = shlex.join(part.decode("utf-8", "replace") for part in arguments)
        self.watch.losses.skip(_CUT, int(cut))
        self.texts.names.replaced(process)
        self._tree.replaced(now, process, thread, f"{command} ..." if cut else command)
