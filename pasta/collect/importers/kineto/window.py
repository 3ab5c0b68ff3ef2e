"""The time in which the profiler recorded, and what a file holds from outside of it."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pasta.collect.importers.kineto.events import Instant
from pasta.collect.losses import Losses
from pasta.collect.shaping.decimal_time import nanoseconds
from pasta.trace_merge import Transform

BEGIN, END = "Iteration Start: PyTorch Profiler", "Record Window End"
_ROWS = {
    "kernel": "kernel",
    "copy": "copy",
    "sync": "synchronisation",
    "call": "call",
    "span": "range",
}

WINDOWED = tuple(_ROWS)
"""The tables whose rows are held against the window."""


class Window:
    """The time between the profiler's own marks.

    Attributes:
        first: where it begins, in ns of the file's time; `None` where no mark says.
        last: where it ends, exclusive; `None` where no mark says.
    """

    def __init__(self) -> None:
        self.first: int | None = None
        self.last: int | None = None

    def take(self, events: Sequence[Instant]) -> None:
        """Take the marks among instants."""
        for event in events:
            if event.name in (BEGIN, END):
                ts, sound = nanoseconds([event.ts])
                if sound[0] and event.name == BEGIN:
                    self.extend(int(ts[0]), None)
                elif sound[0]:
                    self.extend(None, int(ts[0]))

    def extend(self, first: int | None, last: int | None) -> None:
        """Extend it to marks; of several recordings in one file it spans all."""
        if first is not None:
            self.first = first if self.first is None else min(self.first, first)
        if last is not None:
            self.last = last if self.last is None else max(self.last, last)

    def counting(self, table: str, losses: Losses) -> Transform:
        """Return what counts the rows of a table's slices that lie outside, and changes nothing."""
        end = pl.col("ts") + pl.col("dur").fill_null(0)
        sides = {}
        if self.first is not None:
            sides["before"] = (pl.col("ts") < self.first) & (end <= self.first)
        if self.last is not None:
            sides["after"] = pl.col("ts") >= self.last

        def count(frame: pl.DataFrame) -> pl.DataFrame:
            for side, outside in sides.items():
                reason = f"{_ROWS[table]} {side} the window that the profiler recorded: kept"
                losses.skip(reason, frame.select(outside.sum()).item())
            return frame

        return count
