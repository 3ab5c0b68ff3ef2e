"""The call stacks of a snapshot: lists of frames that repeat."""

from __future__ import annotations

from typing import Any

from pasta.collect.importers.torch_memory.values import text_of
from pasta.collect.losses import Losses
from pasta.collect.shaping.stacks import Frame, Stacks

_HELD_MAX = 1 << 16
_LISTS_MAX = 1 << 14


class SnapshotStacks:
    """Numbers the stacks of a snapshot.

    A stack or frame that repeats is mostly one and the same object. So it is looked up by which
    object it is before any is looked into; what was met is held, or its id might become another's.

    Args:
        stacks: where the frames go.
        losses: where frames of unknown form are counted.
    """

    def __init__(self, stacks: Stacks, losses: Losses) -> None:
        self._stacks = stacks
        self._losses = losses
        self._known: dict[tuple[int, ...], tuple[int, list[Any]]] = {}
        self._lists: dict[int, tuple[int, list[Any]]] = {}
        self._frames: dict[int, tuple[Frame, Any]] = {}

    def id_of(self, frames: Any) -> int:
        """Return the `stack_id` of frames, innermost first as snapshots have them; 0 for none."""
        if type(frames) is not list or not frames:
            return 0
        known = self._lists.get(id(frames))
        if known is None:
            if len(self._lists) >= _LISTS_MAX:
                self._lists.clear()
            known = self._lists[id(frames)] = self._id_of_new(frames), frames
        return known[0]

    def _id_of_new(self, frames: list[Any]) -> int:
        key = tuple(map(id, frames))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _HELD_MAX:
                self._known.clear()
            number = self._stacks.id_of([self._frame(frame) for frame in reversed(frames)])
            known = self._known[key] = (
                number,
                frames.copy(),
            )
        return known[0]

    def _frame(self, entry: Any) -> Frame:
        known = self._frames.get(id(entry))
        if known is None:
            if len(self._frames) >= _HELD_MAX:
                self._frames.clear()
            known = self._frames[id(entry)] = self._read(entry), entry
        return known[0]

    def _read(self, entry: Any) -> Frame:
        if type(entry) is not dict:
            self._losses.fault("frame of unknown form: kept without a name")
            return Frame("")
        file, line = text_of(entry.get("filename")), entry.get("line")
        language = "python" if file.endswith(".py") or file.startswith("<") else "c++"
        return Frame(
            text_of(entry.get("name")),
            "" if file == "??" else file,
            line if type(line) is int else 0,
            language if file else "",
        )
