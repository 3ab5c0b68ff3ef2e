"""Memory timelines that `torch.profiler.profile.export_memory_timeline` wrote.

`.raw.json.gz` holds events, `[ns, action, bytes, category]`; `.json` and `.json.gz` hold the bytes of
each category over time, `[[us, ...], [[0, bytes of each category ...], ...]]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import pyarrow as pa

from pasta.collect.containers.json_arrays import NumberArrays
from pasta.collect.importer import Imported, importer
from pasta.collect.losses import Losses
from pasta.collect.shaping.decimal_time import LIMIT
from pasta.collect.sources import Source
from pasta.errors import InputError
from pasta.schema import arrow_schema
from pasta.trace_writer import PartWriter

CATEGORIES = (
    "PARAMETER",
    "OPTIMIZER_STATE",
    "INPUT",
    "TEMPORARY",
    "ACTIVATION",
    "GRADIENT",
    "AUTOGRAD_DETAIL",
    "UNKNOWN",
)
"""The categories of the profiler, in the order in which it numbers them."""

NET = (
    "allocation or release that is known only as a change of the total: kept as one for each moment"
)
BEFORE = "memory that was live before the profiler began: given an allocation at its start"
NAMELESS = "allocation or release without an address: what it is of is unknown"
_DAMAGED = "event of anything but a time, an action, a size and a category: left out"
_NO_TIME = "moment without a believable time or without the size of each category: left out"
_BACKWARDS = "event that is earlier than the one before it: placed at its time"
_PREEXISTING, _CREATE, _INCREMENT, _DESTROY = 1, 2, 3, 4
_ACTIONS = frozenset({_PREEXISTING, _CREATE, _INCREMENT, _DESTROY})
_RAW = re.compile(rb"\s*\[\s*\[\s*-?\d+\s*,\s*[1-4]\s*,\s*-?\d+\s*,\s*\d\s*\]")
_PLOT = re.compile(rb"\s*\[\s*\[(?:\s*\d[\d\s,]*)?(?:\]\s*,\s*\[|$)")
_HTML, _HTML_TITLE = b"<html>", b"Memory Timeline"
_DEVICE = 0
_BATCH_ROWS = 1 << 15
_SIZE_LIMIT = 1 << 62
_TOTAL_LIMIT = 1 << 63


@importer("torch_memory_timeline")
class TorchMemoryTimeline:
    """Imports one timeline, which is of one device of one process and names neither."""

    format = "PyTorch memory timeline (JSON)"
    version = 2
    general = False

    def recognises(self, source: Source) -> bool:
        """Tell whether a file starts as numbers in two arrays, or is a picture of a timeline."""
        head = source.head
        if head.lstrip().startswith(_HTML):
            return _HTML_TITLE in head
        return bool(_RAW.match(head) or _PLOT.match(head))

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append allocations, releases and the bytes of each category.

        Raises:
            InputError: it is the picture, which holds no numbers.
        """
        if source.head.lstrip().startswith(_HTML):
            raise InputError(
                f"{source.name}: is the picture of a memory timeline; export its numbers instead:"
                " export_memory_timeline('timeline.raw.json.gz')"
            )
        rows = _Rows(part)
        arrays = chain.from_iterable(NumberArrays(source.chunks, losses, source.damage))
        if _RAW.match(source.head):
            _read_events(arrays, rows, losses)
        else:
            _read_moments(arrays, rows, losses)
        rows.finish()
        losses.skip(NAMELESS, rows.allocations)
        return Imported()


class _Event(NamedTuple):
    """A change of the live bytes of a category; `action` as the profiler numbers it."""

    ts: int
    action: int
    bytes: int
    category: int


def _read_events(arrays: Iterator[list[int]], rows: _Rows, losses: Losses) -> None:
    """Append the events of the raw form."""
    earlier: list[_Event] = []
    for event in _events(arrays, losses):
        if event.ts < 0:
            earlier.append(event)
            continue
        _add_earlier(earlier, event.ts - 1, rows, losses)
        earlier = []
        if event.ts < rows.last:
            losses.fault(_BACKWARDS, first_ts=event.ts)
        rows.add(event._replace(ts=max(event.ts, rows.last)))
    _add_earlier(earlier, max(rows.last, 1), rows, losses)


def _add_earlier(events: list[_Event], ts: int, rows: _Rows, losses: Losses) -> None:
    losses.skip(BEFORE, len(events), ts)
    for event in events:
        rows.add(event._replace(ts=max(ts, rows.last)))


def _events(arrays: Iterable[list[int]], losses: Losses) -> Iterator[_Event]:
    """Yield the events that are believed."""
    for array in arrays:
        if len(array) == len(_Event._fields):
            event = _Event(*array)
            sound = event.action in _ACTIONS and 0 <= event.category < len(CATEGORIES)
            if sound and -1 <= event.ts < LIMIT and abs(event.bytes) < _SIZE_LIMIT:
                yield event
                continue
        losses.fault(_DAMAGED, where=str(array)[:80])


def _read_moments(arrays: Iterator[list[int]], rows: _Rows, losses: Losses) -> None:
    """Append what the sizes of each moment tell: their changes."""
    times = next(arrays, [])
    sizes = [0] * len(CATEGORIES)
    last = moments = 0
    for time, array in zip(times, arrays, strict=False):
        moments += 1
        ts = time * 1000
        sound = len(array) == len(CATEGORIES) + 1 and all(0 <= n < _SIZE_LIMIT for n in array)
        if not sound or not last <= ts < LIMIT:
            losses.fault(_NO_TIME, where=f"moment {moments}")
            continue
        last = ts
        rows.add_moment(ts, sizes, array[1:])
        sizes = array[1:]
    losses.skip(NET, rows.allocations)
    losses.fault(_NO_TIME, abs(len(times) - moments) + sum(1 for _ in arrays))


class _Rows:
    """Appends rows of `memory` and `metric`.

    Args:
        part: where the rows go.

    Attributes:
        first: earliest time in ns; `None`: there is none.
        last: latest time.
        allocations: rows of `memory` so far.
    """

    def __init__(self, part: PartWriter) -> None:
        self.first: int | None = None
        self.last = 0
        self.allocations = 0
        self._part = part
        self._total = 0
        self._sizes = [0] * len(CATEGORIES)
        self._told: list[int | None] = [None] * len(CATEGORIES)
        self._memory: list[tuple[int, str, int, int | None]] = []
        self._metrics: list[tuple[int, str, float]] = []

    def add(self, event: _Event) -> None:
        """Add an event; a new version of a tensor moves bytes between categories only."""
        self._reach(event.ts)
        self._sizes[event.category] += event.bytes
        if event.action != _INCREMENT:
            self._change(event.ts, event.bytes)

    def add_moment(self, ts: int, before: list[int], after: list[int]) -> None:
        """Add what changed at a moment, from the sizes of categories before it and after."""
        self._reach(ts)
        self._sizes = after
        if change := sum(after) - sum(before):
            self._change(ts, change)

    def finish(self) -> None:
        """Append what is left, and the process and device that it is of."""
        self._tell_sizes()
        self._flush()
        process = {"pid": 0, "started": self.first, "ended": self.last, "framework": "pytorch"}
        for table, row in (("process", process), ("device", {"pid": 0, "device": _DEVICE})):
            if self.first is not None:
                self._part.append(table, pa.Table.from_pylist([row], schema=arrow_schema(table)))

    def _reach(self, ts: int) -> None:
        """Tell the sizes of the moment before, once another begins."""
        if self.first is None:
            self.first = ts
        elif ts != self.last:
            self._tell_sizes()
        self.last = ts
        if len(self._memory) + len(self._metrics) >= _BATCH_ROWS:
            self._flush()

    def _change(self, ts: int, amount: int) -> None:
        self._total += amount
        self.allocations += 1
        event = "allocate" if amount >= 0 else "release"
        total = self._total if 0 <= self._total < _TOTAL_LIMIT else None
        self._memory.append((ts, event, abs(amount), total))

    def _tell_sizes(self) -> None:
        for category, size in enumerate(self._sizes):
            if size != self._told[category] and (size or self._told[category] is not None):
                self._metrics.append((self.last, f"memory/{CATEGORIES[category]}", float(size)))
                self._told[category] = size

    def _flush(self) -> None:
        self._append(
            "memory",
            ("ts", "event", "bytes", "total_allocated"),
            self._memory,
            {"tid": 0, "space": "tensor", "object_id": 0, "stack_id": 0},
        )
        self._append("metric", ("ts", "name", "value"), self._metrics, {"unit": "bytes"})
        self._memory, self._metrics = [], []

    def _append(
        self,
        table: str,
        names: tuple[str, ...],
        rows: list[tuple[int, str, int, int | None]] | list[tuple[int, str, float]],
        same: dict[str, object],
    ) -> None:
        if not rows:
            return
        schema = arrow_schema(table)
        columns: dict[str, list[object]] = {
            name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)
        }
        columns |= {
            name: [value] * len(rows)
            for name, value in {**same, "pid": 0, "device": _DEVICE}.items()
        }
        if "launch_id" in schema.names:
            columns["launch_id"] = [0] * len(rows)
        self._part.append(
            table,
            pa.table({name: pa.array(columns[name], schema.field(name).type) for name in columns}),
        )
