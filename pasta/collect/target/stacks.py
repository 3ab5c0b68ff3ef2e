"""Python call stacks, interned: each travels once, as rows of `frame`."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from types import CodeType, FrameType

from .rows import Losses, Rows

FRAME_COLUMNS = ("stack_id", "depth", "function", "file", "line")
DEEPEST = 256
MOST = 1 << 16
TOO_DEEP = f"call stacks of more than {DEEPEST} frames: the outermost frames are left out"
TOO_MANY = f"call stacks beyond the first {MOST} different ones: not recorded"

_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
# How torch gets from a call in the program to the code of a module, an optimizer or an operator.
_MACHINERY = {
    os.path.join("torch", "nn", "modules", "module.py"): {
        "_wrapped_call_impl",
        "_call_impl",
        "inner",
    },
    os.path.join("torch", "optim", "optimizer.py"): {"wrapper", "_use_grad"},
    os.path.join("torch", "utils", "_contextlib.py"): {"decorate_context"},
    os.path.join("torch", "_ops.py"): {"__call__"},
    os.path.join("torch", "_compile.py"): {"inner"},
    os.path.join("torch", "_dynamo", "eval_frame.py"): {"_fn"},
}

Line = tuple[CodeType, int]
"""A line of a program's code."""


class Stacks:
    """The call stacks met so far.

    A stack is looked up by the codes of its frames and the instruction that each has come to,
    which costs no look at line numbers; stacks that differ in instructions but not in lines are
    one.

    Args:
        rows: takes the `frame` rows.
        losses: counts what was left out.
        clock: the trace's clock, in ns.
    """

    def __init__(self, rows: Rows, losses: Losses, clock: Callable[[], int]) -> None:
        self._rows = rows
        self._losses = losses
        self._clock = clock
        self._ids = itertools.count(1)
        self._by_instructions: dict[tuple[int, ...], int] = {}
        self._by_lines: dict[tuple[Line, ...], int] = {}
        # Keeps codes alive, so that an `id` is never that of another one.
        self._codes: dict[int, CodeType] = {}

    def here(self) -> int:
        """Return the id of the calling thread's stack, without frames of the collector."""
        return self.of(sys._getframe(1))  # noqa: SLF001 - there is no public name for it

    def of(self, innermost: FrameType) -> int:
        """Return the id of the stack that ends in the frame `innermost`; 0: not recorded."""
        met: list[int] = []
        frame: FrameType | None = innermost
        while frame is not None and len(met) < 2 * DEEPEST:
            met.append(id(frame.f_code))
            met.append(frame.f_lasti)
            frame = frame.f_back
        key = (*met,)
        known = self._by_instructions.get(key)
        if known is not None:
            return known
        if frame is not None:
            self._losses.count(TOO_DEEP, self._clock())
        if len(self._by_instructions) >= MOST:
            self._losses.count(TOO_MANY, self._clock())
            return 0
        return self._new(key, innermost)

    def _new(self, key: tuple[int, ...], innermost: FrameType) -> int:
        lines: list[Line] = []
        frame: FrameType | None = innermost
        for _ in range(len(key) // 2):
            if frame is None:
                break
            code = frame.f_code
            self._codes[id(code)] = code
            if not _left_out(code):
                lines.append((code, frame.f_lineno or 0))
            frame = frame.f_back
        lines.reverse()
        stack_id = self._by_lines.get((*lines,)) or self._write(lines)
        self._by_instructions[key] = stack_id
        return stack_id

    def _write(self, lines: list[Line]) -> int:
        if not lines:
            return 0
        stack_id = next(self._ids)
        for depth, (code, line) in enumerate(lines):
            self._rows.append((stack_id, depth, code.co_qualname, code.co_filename, line))
        self._by_lines[(*lines,)] = stack_id
        return stack_id


def _left_out(code: CodeType) -> bool:
    """Tell whether `code` belongs to the collector or to how torch calls modules and operators."""
    file = code.co_filename
    if file.startswith(_OWN_FOLDER):
        return True
    return any(code.co_name in names and file.endswith(end) for end, names in _MACHINERY.items())
