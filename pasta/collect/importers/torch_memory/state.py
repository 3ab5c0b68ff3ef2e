"""The allocator's state when the snapshot was taken: its segments and the blocks in them."""

from __future__ import annotations

from typing import Any, NamedTuple

from pasta.collect.importers.torch_memory.frames import SnapshotStacks
from pasta.collect.importers.torch_memory.values import (
    address_of,
    device_of,
    entries,
    size_of,
    stream_of,
)
from pasta.collect.losses import Losses

_LIVE = "active_allocated"
_DAMAGED = "segment or block without an address or a size: left out"


class Held(NamedTuple):
    """Memory that is held when the snapshot is taken."""

    address: int
    bytes: int
    stream: int | None
    stack_id: int


class FinalState:
    """The segments of all devices and the live blocks in them.

    Args:
        stacks: numbers the stacks of those that allocated.
        losses: where damage is counted.

    Attributes:
        segments: device -> its segments.
        blocks: device -> its live blocks, with the sizes that were asked for.
    """

    def __init__(self, stacks: SnapshotStacks, losses: Losses) -> None:
        self.segments: dict[int, list[Held]] = {}
        self.blocks: dict[int, list[Held]] = {}
        self._stacks = stacks
        self._losses = losses

    def add(self, items: list[Any]) -> None:
        """Add segments as the snapshot has them."""
        segments = entries(items)
        self._losses.fault(_DAMAGED, len(items) - len(segments))
        for segment in segments:
            self._add_segment(segment)

    def _add_segment(self, segment: dict[str, Any]) -> None:
        start, size = address_of(segment.get("address")), size_of(segment.get("total_size"))
        device = device_of(segment.get("device", 0))
        if start is None or size is None:
            self._losses.fault(_DAMAGED)
            return
        stream = stream_of(segment.get("stream"))
        stack_id = self._stacks.id_of(segment.get("frames"))
        self.segments.setdefault(device, []).append(Held(start, size, stream, stack_id))
        live = self.blocks.setdefault(device, [])
        for block in entries(segment.get("blocks")):
            address = address_of(block.get("address", start))
            rounded = size_of(block.get("size"))
            if address is None or rounded is None:
                self._losses.fault(_DAMAGED)
                continue
            start = address + rounded
            if block.get("state") == _LIVE:
                asked, frames = _asked_for(block, rounded)
                live.append(Held(address, asked, stream, self._stacks.id_of(frames)))


def _asked_for(block: dict[str, Any], rounded: int) -> tuple[int, Any]:
    """Return the size that was asked for and the frames, also of blocks before PyTorch 2.1."""
    history = entries(block.get("history"))
    first = history[0] if history else {}
    asked = size_of(block.get("requested_size", first.get("real_size")))
    return rounded if asked is None else asked, block.get("frames", first.get("frames"))
