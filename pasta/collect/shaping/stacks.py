"""Call stacks, stored once each: frames in, a number out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pasta.collect.shaping.columns import stable_number
from pasta.schema import arrow_schema
from pasta.trace_writer import PartWriter

_BATCH_ROWS = 1 << 14
_HELD_MAX = 1 << 16
_LINE_MAX = (1 << 31) - 1


class Frame(NamedTuple):
    """One frame of a call stack; what is unknown stays empty, 0 for a line."""

    function: str
    file: str = ""
    line: int = 0
    language: str = ""
    library: str = ""


class Stacks:
    """Numbers the call stacks of one process, and writes the frames of each once.

    The same frames have the same number in every process and every file.

    Args:
        part: where the rows of `frame` go.
        pid: the process.
        owner: whose numbers they are, where several write stacks of a process into one trace.
    """

    def __init__(self, part: PartWriter, pid: int = 0, owner: str = "") -> None:
        self._part = part
        self._pid = pid
        self._owner = [owner] if owner else []
        self._held: dict[tuple[Frame, ...], int] = {}
        self._written = _Numbers()
        self._stack_ids: list[int] = []
        self._depths: list[int] = []
        self._frames: list[Frame] = []

    def id_of(self, frames: Sequence[Frame]) -> int:
        """Return the `stack_id` of frames, outermost first; 0 for none."""
        key = tuple(frames)
        if not key:
            return 0
        if key not in self._held:
            if len(self._held) >= _HELD_MAX:
                self._held.clear()
            self._held[key] = stable_number("\0".join([*self._owner, *map(repr, key)]))
            self._write(self._held[key], key)
        return self._held[key]

    def _write(self, stack_id: int, frames: tuple[Frame, ...]) -> None:
        if not self._written.add(stack_id):
            return
        self._stack_ids += [stack_id] * len(frames)
        self._depths += range(len(frames))
        self._frames += frames
        if len(self._frames) >= _BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the frames of the stacks that are new since the last call."""
        if not self._frames:
            return
        functions, files, lines, languages, libraries = zip(*self._frames, strict=True)
        rows = {
            "pid": [self._pid] * len(functions),
            "stack_id": self._stack_ids,
            "depth": self._depths,
            "function": functions,
            "file": files,
            "line": [min(max(line, 0), _LINE_MAX) for line in lines],
            "language": languages,
            "library": libraries,
        }
        schema = arrow_schema("frame")
        self._part.append(
            "frame",
            pa.table({name: pa.array(rows[name], schema.field(name).type) for name in rows}),
        )
        self._stack_ids, self._depths, self._frames = [], [], []


class _Numbers:
    """A set of whole numbers that takes 8 bytes for each: the last ones as they are, all else sorted."""

    def __init__(self) -> None:
        self._last: set[int] = set()
        self._sorted = np.zeros(0, dtype=np.int64)

    def add(self, number: int) -> bool:
        """Add a number; tell whether it is new."""
        if number in self._last:
            return False
        place = int(np.searchsorted(self._sorted, number))
        if place < len(self._sorted) and self._sorted[place] == number:
            return False
        self._last.add(number)
        if len(self._last) >= _HELD_MAX:
            last = np.fromiter(self._last, np.int64, len(self._last))
            self._sorted = np.sort(np.concatenate([self._sorted, last]), kind="stable")
            self._last.clear()
        return True
