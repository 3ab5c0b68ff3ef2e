"""Rows of `span`: the program's annotations, and allocations that failed for lack of memory."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pasta.collect.importers.torch_memory.history import Failure
from pasta.collect.importers.torch_memory.values import (
    device_of,
    entries,
    nanoseconds_of,
    text_of,
)
from pasta.collect.losses import Losses
from pasta.schema import arrow_schema
from pasta.trace_writer import PartWriter

OUT_OF_MEMORY = "allocation that failed, out of memory: kept as a span of that name"
_DAMAGED = "annotation without a name, a stage or a time: left out"
_NO_START = "end of an annotation that began before the recorded history: left out"
_BATCH = 1 << 14


class Spans:
    """Pairs the starts and ends of annotations, and appends spans.

    Snapshots do not tell threads: all is on thread 0, and an end belongs to the last start of its
    name, on its device where there is one.

    Args:
        part: where the rows go.
        losses: where unpaired ends are counted.

    Attributes:
        first: earliest time in ns; `None`: there is none.
        last: latest time.
    """

    def __init__(self, part: PartWriter, losses: Losses) -> None:
        self.first: int | None = None
        self.last = 0
        self._part = part
        self._losses = losses
        self._open: dict[str, list[tuple[int, int]]] = {}
        self._rows: list[tuple[int, int | None, str, int]] = []

    def add(self, items: list[Any]) -> None:
        """Add annotations as the snapshot has them."""
        found = entries(items)
        self._losses.fault(_DAMAGED, len(items) - len(found))
        for entry in found:
            self._add(entry)

    def add_failure(self, failure: Failure) -> None:
        """Add an allocation that failed."""
        asked, free = (f"{size} bytes" if size >= 0 else "an unknown size" for size in failure[2:4])
        name = f"out of memory on device {failure.device}: {asked} asked for, {free} free"
        self._losses.skip(OUT_OF_MEMORY, first_ts=failure.ts)
        self._append(failure.ts, 0, name, failure.stack_id)

    def finish(self) -> None:
        """Append all, those that never ended without a duration."""
        for name, starts in self._open.items():
            for _, ts in starts:
                self._append(ts, None, name, 0)
        self._flush()

    def _add(self, entry: dict[str, Any]) -> None:
        name, stage = text_of(entry.get("name")), entry.get("stage")
        ts, device = nanoseconds_of(entry.get("time_us")), device_of(entry.get("device"))
        if not name or stage not in ("START", "END") or ts is None:
            self._losses.fault(_DAMAGED)
            return
        starts = self._open.setdefault(name, [])
        if stage == "START":
            starts.append((device, ts))
            return
        rows = [
            row
            for row, (started_on, began) in enumerate(starts)
            if began <= ts and started_on == device
        ]
        rows = rows or [row for row, (_, began) in enumerate(starts) if began <= ts]
        if not rows:
            self._losses.skip(_NO_START, first_ts=ts)
            return
        _, began = starts.pop(rows[-1])
        self._append(began, ts - began, name, 0)

    def _append(self, ts: int, dur: int | None, name: str, stack_id: int) -> None:
        self.first = ts if self.first is None else min(self.first, ts)
        self.last = max(self.last, ts + (dur or 0))
        self._rows.append((ts, dur, name, stack_id))
        if len(self._rows) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        if not self._rows:
            return
        schema = arrow_schema("span")
        ts, dur, names, stacks = zip(*self._rows, strict=True)
        columns: dict[str, Any] = {"ts": ts, "dur": dur, "name": names, "stack_id": stacks}
        columns |= {name: [0] * len(ts) for name in ("pid", "tid", "external_id")}
        columns["level"] = ["annotation"] * len(ts)
        self._part.append(
            "span",
            pa.table({name: pa.array(columns[name], schema.field(name).type) for name in columns}),
        )
        self._rows = []
