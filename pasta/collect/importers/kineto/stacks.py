"""Call stacks that older traces write out as text on every operator."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pasta.collect.shaping.columns import stable_number

_FRAME = re.compile(r"(.*)\((\d{1,18})\): (.*)", re.DOTALL)
_LINE_MAX = (1 << 31) - 1


class CallStacks:
    """Numbers call stacks, the same text always alike, and keeps the frames of new ones."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._new: list[dict[str, Any]] = []

    def ids(self, stacks: Sequence[Any]) -> pa.Array[Any]:
        """Return `stack_id` for texts as `inner.py(3): f;outer.py(9): <module>`; 0 for none."""
        if not any(stacks):
            return pa.array([0] * len(stacks), pa.uint64())
        return pa.array([self._id(stack) for stack in stacks], pa.uint64())

    def _id(self, stack: Any) -> int:
        if not stack or not isinstance(stack, str):
            return 0
        if stack not in self._known:
            self._known[stack] = stable_number(stack)
            self._new += _frames(self._known[stack], stack)
        return self._known[stack]

    def take_frames(self) -> pa.RecordBatch | None:
        """Return the frames of stacks met since the last call."""
        if not self._new:
            return None
        batch = pa.RecordBatch.from_pylist(self._new)
        self._new = []
        return batch


def _frames(stack_id: int, stack: str) -> list[dict[str, Any]]:
    frames = []
    for depth, text in enumerate(reversed(stack.split(";"))):
        match = _FRAME.fullmatch(text)
        file, line, function = match.groups() if match else ("", "0", text)
        frames.append(
            {
                "stack_id": stack_id,
                "depth": depth,
                "function": function,
                "file": file,
                "line": min(int(line), _LINE_MAX),
                "language": "python",
                "library": "",
            }
        )
    return frames
