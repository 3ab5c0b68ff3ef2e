"""The processes that rows are of, with the extent of each one's recording."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from pasta.collect.losses import Losses

_EARLY = "process that ends before it starts: its end is unknown"


class Processes:
    """Takes rows of any table and tells of each process when it was first and last met."""

    def __init__(self) -> None:
        self._extents: dict[int, tuple[int | None, int | None]] = {}

    @property
    def first(self) -> int:
        """The process that was met first; 0 where there is none."""
        return next(iter(self._extents), 0)

    def add(self, table: pa.Table) -> None:
        """Take rows with `pid` and, where they have them, `ts` and `dur`."""
        names = [name for name in ("pid", "ts", "dur") if name in table.column_names]
        frame = pl.from_arrow(table.select(names))
        assert isinstance(frame, pl.DataFrame)  # noqa: S101 (of a table)
        start = pl.col("ts") if "ts" in names else pl.lit(None, pl.Int64)
        end = start + pl.col("dur").fill_null(0) if "dur" in names else start
        extents = frame.group_by("pid").agg(first=start.min(), last=end.max())
        for pid, first, last in extents.sort("pid").iter_rows():
            known = self._extents.get(pid or 0, (None, None))
            self._extents[pid or 0] = (
                min((time for time in (known[0], first) if time is not None), default=None),
                max((time for time in (known[1], last) if time is not None), default=None),
            )

    def rows(self) -> pa.Table:
        """Return a row of `process` for each."""
        first = [first for first, _ in self._extents.values()]
        last = [last for _, last in self._extents.values()]
        return pa.table(
            {
                "pid": pa.array(self._extents.keys(), pa.int64()),
                "started": pa.array(first, pa.int64()),
                "ended": pa.array(last, pa.int64()),
            }
        )


def sound_ends(started: pa.Array[Any], ended: pa.Array[Any], losses: Losses) -> pa.Array[Any]:
    """Return when processes ended, null where that is before they started, which is counted."""
    earlier: Any = pc.less(ended, started)
    early = earlier.fill_null(pa.scalar(value=False))
    losses.fault(_EARLY, early.true_count)
    known: pa.Array[Any] = pc.if_else(early, pa.scalar(None, ended.type), ended)
    return known
