"""What the allocator of one device did, entry by entry of its recorded history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pasta.collect.importers.torch_memory.frames import SnapshotStacks
from pasta.collect.importers.torch_memory.ranges import Range, Ranges
from pasta.collect.importers.torch_memory.rows import BLOCKS, SEGMENTS, MemoryRows, Row
from pasta.collect.importers.torch_memory.state import Held
from pasta.collect.importers.torch_memory.values import (
    address_of,
    nanoseconds_of,
    size_of,
    stream_of,
)
from pasta.collect.losses import Losses

BEFORE = "memory that was live before the recorded history began: given an allocation at its start"
_DAMAGED = "entry of the history without an action, an address or a size: left out"
_UNKNOWN = "entry of the history of an unknown action: left out"
_WITHOUT_TIME = "entry of the history without a time: placed 1 ns after the one before it"
_BACKWARDS = "entry of the history that is earlier than the one before it: placed at its time"
_TWICE = "allocation at an address that is in use: the earlier one ends there"
_COMPLETED = "free_completed entry: left out, as free_requested is the release"
_MARK = "snapshot entry, which marks that one was taken: left out"
_COMPILED = "compile_context of an entry: left out"
_METADATA = "user_metadata of an entry: left out"
_NO_CONTEXT = ("", "N/A")


class Failure(NamedTuple):
    """An allocation that failed for lack of memory; sizes are -1 where unknown."""

    device: int
    ts: int
    bytes: int
    free_bytes: int
    stack_id: int


class _Entry(NamedTuple):
    """What all entries have in common."""

    ts: int
    address: int
    bytes: int
    stream: int | None
    stack_id: int


class _Live(NamedTuple):
    object_id: int
    bytes: int


class DeviceHistory:
    """Turns the entries of one device into rows of `memory`.

    Args:
        device: its ordinal.
        rows: where the rows go.
        stacks: numbers the call stacks.
        ids: gives the ids of memory objects, by space.
        losses: where what is left out is counted.

    Attributes:
        first: time of the first entry in ns; `None`: there is none.
        last: time of the last one.
        failures: the allocations that failed.
    """

    def __init__(
        self,
        device: int,
        rows: MemoryRows,
        stacks: SnapshotStacks,
        ids: dict[str, Iterator[int]],
        losses: Losses,
    ) -> None:
        self.first: int | None = None
        self.last = 0
        self.failures: list[Failure] = []
        self._device = device
        self._rows = rows
        self._stacks = stacks
        self._ids = ids
        self._losses = losses
        self._live: dict[int, _Live] = {}
        self._ranges = Ranges()
        self._totals = {BLOCKS: 0, SEGMENTS: 0}
        self._earlier: list[tuple[str, Held, int]] = []
        self._actions: dict[Any, Callable[[_Entry], None]] = {
            "alloc": self._allocate,
            "free_requested": self._release,
            "free": self._release,
            "segment_alloc": self._reserve,
            "segment_map": self._reserve,
            "segment_free": self._give_back,
            "segment_unmap": self._give_back,
        }

    def add(self, items: list[Any]) -> None:
        """Add entries, in their order."""
        for item in items:
            if type(item) is not dict:
                self._losses.fault(_DAMAGED)
            else:
                self._add(item)

    def finish(self, segments: list[Held], blocks: list[Held], begin: int) -> None:
        """Add the allocations that the history does not have.

        Args:
            segments: the segments that are held at the end.
            blocks: the blocks that are live then.
            begin: when the history began, in ns.
        """
        earlier = self._earlier
        for segment in segments:
            for start, end in self._ranges.gaps(segment.address, segment.address + segment.bytes):
                part = segment._replace(address=start, bytes=end - start)
                earlier.append((SEGMENTS, part, next(self._ids[SEGMENTS])))
        for block in blocks:
            if block.address not in self._live:
                earlier.append((BLOCKS, block, next(self._ids[BLOCKS])))
        earlier.sort(key=lambda one: one[0] != SEGMENTS)
        totals = dict.fromkeys(self._totals, 0)
        for space, held, _ in earlier:
            totals[space] += held.bytes
        self._rows.before |= {(self._device, space): size for space, size in totals.items()}
        self._totals = {space: -size for space, size in totals.items()}
        for space, held, object_id in earlier:
            entry = _Entry(begin, held.address, held.bytes, held.stream, held.stack_id)
            self._append("allocate", space, entry, held.bytes, object_id)
        self._losses.skip(BEFORE, len(earlier) if self.first is not None else 0, begin)

    def _add(self, item: dict[str, Any]) -> None:
        action = item.get("action")
        if action == "free_completed":
            self._losses.skip(_COMPLETED)
            self._time_of(item)
            return
        if action == "snapshot":
            self._losses.skip(_MARK)
            return
        if action == "oom":
            self._fail(item)
            return
        handle = self._actions.get(action) if type(action) is str else None
        address, size = address_of(item.get("addr")), size_of(item.get("size"))
        if handle is None or address is None or size is None:
            named = type(action) is str and handle is None
            self._losses.fault(_UNKNOWN if named else _DAMAGED)
            return
        if item.get("compile_context", "") not in _NO_CONTEXT:
            self._losses.skip(_COMPILED)
        if item.get("user_metadata", "") != "":
            self._losses.skip(_METADATA)
        stack_id = self._stacks.id_of(item.get("frames"))
        stream = stream_of(item.get("stream"))
        handle(_Entry(self._time_of(item), address, size, stream, stack_id))

    def _time_of(self, item: dict[str, Any]) -> int:
        """Return the time of an entry, never before that of the one before it."""
        ts = nanoseconds_of(item.get("time_us"))
        if ts is None:
            self._losses.fault(_WITHOUT_TIME)
            ts = self.last + 1
        elif ts < self.last:
            self._losses.fault(_BACKWARDS, first_ts=ts)
            ts = self.last
        if self.first is None:
            self.first = ts
        self.last = ts
        return ts

    def _allocate(self, entry: _Entry) -> None:
        earlier = self._live.get(entry.address)
        if earlier is not None:
            self._losses.fault(_TWICE, first_ts=entry.ts)
            self._append("release", BLOCKS, entry, earlier.bytes, earlier.object_id)
        new = _Live(next(self._ids[BLOCKS]), entry.bytes)
        self._live[entry.address] = new
        self._append("allocate", BLOCKS, entry, new.bytes, new.object_id)

    def _release(self, entry: _Entry) -> None:
        live = self._live.pop(entry.address, None)
        if live is None:
            live = _Live(next(self._ids[BLOCKS]), entry.bytes)
            held = Held(entry.address, entry.bytes, entry.stream, 0)
            self._earlier.append((BLOCKS, held, live.object_id))
        self._append("release", BLOCKS, entry, live.bytes, live.object_id)

    def _reserve(self, entry: _Entry) -> None:
        overlapped = self._ranges.remove(entry.address, entry.address + entry.bytes)
        if overlapped:
            self._losses.fault(_TWICE, first_ts=entry.ts)
        for earlier in overlapped:
            self._end_range(entry, earlier)
        self._begin_range(entry, entry.address, entry.address + entry.bytes)

    def _give_back(self, entry: _Entry) -> None:
        """End the ranges that overlap one; what remains of them begins anew."""
        start, end = entry.address, entry.address + entry.bytes
        for gap_start, gap_end in self._ranges.gaps(start, end):
            object_id = next(self._ids[SEGMENTS])
            held = Held(gap_start, gap_end - gap_start, entry.stream, 0)
            self._earlier.append((SEGMENTS, held, object_id))
            self._ranges.add(Range(gap_start, gap_end, object_id))
        for reserved in self._ranges.remove(start, end):
            self._end_range(entry, reserved)
            if reserved.start < start:
                self._begin_range(entry, reserved.start, start)
            if reserved.end > end:
                self._begin_range(entry, end, reserved.end)

    def _begin_range(self, entry: _Entry, start: int, end: int) -> None:
        reserved = Range(start, end, next(self._ids[SEGMENTS]))
        self._ranges.add(reserved)
        at = entry._replace(address=start)
        self._append("allocate", SEGMENTS, at, end - start, reserved.object_id)

    def _end_range(self, entry: _Entry, reserved: Range) -> None:
        at = entry._replace(address=reserved.start)
        size = reserved.end - reserved.start
        self._append("release", SEGMENTS, at, size, reserved.object_id)

    def _append(self, event: str, space: str, entry: _Entry, size: int, object_id: int) -> None:
        self._totals[space] += size if event == "allocate" else -size
        reserved = self._totals[SEGMENTS] if space == BLOCKS else None
        self._rows.add(
            Row(
                self._device,
                entry.ts,
                event,
                space,
                entry.address,
                size,
                object_id,
                self._totals[space],
                reserved,
                entry.stream,
                entry.stack_id,
            )
        )

    def _fail(self, item: dict[str, Any]) -> None:
        asked, free = size_of(item.get("size")), size_of(item.get("device_free"))
        self.failures.append(
            Failure(
                self._device,
                self._time_of(item),
                -1 if asked is None else asked,
                -1 if free is None else free,
                self._stacks.id_of(item.get("frames")),
            )
        )
