"""When something happens on each rank, in many equal parts of a trace: all that checks of gaps need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pasta.schema import TABLES
from pasta.trace import Trace

BINS = 4096

TIMELINE = tuple(name for name, table in TABLES.items() if "ts" in table.schema.names)
"""Tables whose rows have a time."""

_ENCLOSING = frozenset({"span"})
"""Tables whose rows enclose idle time as well, so that only their ends tell that anything happens."""

_NEVER_FIRST, _NEVER_LAST = (1 << 63) - 1, -(1 << 63)

Integers = NDArray[np.int64]


@dataclass
class Moments:
    """The first and the last moment of each part of a trace at which anything happens.

    Attributes:
        first: of each part, ns; beyond all times where nothing happens.
        last: of each part, ns; before all times where nothing happens.
        begun: rows that begin in each part.
        ended: rows that end in each part.
    """

    first: Integers
    last: Integers
    begun: Integers
    ended: Integers

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.begun.sum())

    @property
    def extent(self) -> tuple[int, int]:
        """The first and the last moment of all."""
        return int(self.first.min()), int(self.last.max())

    def core(self, spared: float) -> int:
        """Return how long that lasts in which all rows begin but a share at either end, ns."""
        begun = np.cumsum(self.begun)
        low = np.searchsorted(begun, spared * begun[-1], side="right")
        high = np.searchsorted(begun, (1 - spared) * begun[-1])
        return max(int(self.last[high]) - int(self.first[low]), 0)

    def longest_gap(self) -> tuple[int, int]:
        """Return where the longest time without anything begins and ends, if it is two parts or more."""
        active = np.flatnonzero(self.first <= self.last)
        until = np.maximum.accumulate(self.last[active])
        gaps = self.first[active][1:] - until[:-1]
        if not len(gaps) or gaps.max() <= 0:
            return self.extent[1], self.extent[1]
        place = int(gaps.argmax())
        return int(until[place]), int(self.first[active][place + 1])


def moments_of(trace: Trace, low: int, high: int) -> dict[int, Moments]:
    """Return the moments of each rank between `low` and `high`, ns; rows that reach out are left out."""
    width = max((high - low) // BINS + 1, 1)
    frames = [_grouped(trace, table, low, high, width) for table in TIMELINE if trace.has(table)]
    groups = pl.concat(pl.collect_all(frames, engine="streaming"))
    ranks = groups.partition_by("rank", as_dict=True)
    return {int(rank): _moments(rows, low, width) for (rank,), rows in sorted(ranks.items())}


def merged(moments: list[Moments]) -> Moments:
    """Return the moments of all ranks as of one."""
    return Moments(
        np.min([one.first for one in moments], axis=0),
        np.max([one.last for one in moments], axis=0),
        np.sum([one.begun for one in moments], axis=0),
        np.sum([one.ended for one in moments], axis=0),
    )


def _grouped(trace: Trace, table: str, low: int, high: int, width: int) -> pl.LazyFrame:
    """Group the rows of a table by rank and by the parts of the trace in which they begin and end."""
    lasting = pl.col("dur").fill_null(0) if "dur" in TABLES[table].schema.names else 0
    rows = trace.scan(table).select(pl.col("rank").fill_null(0), "ts", end=pl.col("ts") + lasting)
    within = rows.filter(pl.col("ts") >= low, pl.col("end") >= pl.col("ts"), pl.col("end") <= high)
    parts = [((pl.col(name) - low) // width).alias(f"{name}_bin") for name in ("ts", "end")]
    return (
        within.group_by("rank", *parts)
        .agg(
            pl.len().cast(pl.Int64).alias("rows"),
            pl.col("ts").min().alias("ts_first"),
            pl.col("ts").max().alias("ts_last"),
            pl.col("end").min().alias("end_first"),
            pl.col("end").max().alias("end_last"),
        )
        .with_columns(busy=pl.lit(table not in _ENCLOSING))
    )


def _moments(groups: pl.DataFrame, low: int, width: int) -> Moments:
    first, last = np.full(BINS, _NEVER_FIRST), np.full(BINS, _NEVER_LAST)
    begun, ended = np.zeros(BINS, dtype=np.int64), np.zeros(BINS, dtype=np.int64)
    column = {name: groups[name].to_numpy() for name in groups.columns}
    for name, counts in (("ts", begun), ("end", ended)):
        place = column[f"{name}_bin"]
        np.minimum.at(first, place, column[f"{name}_first"])
        np.maximum.at(last, place, column[f"{name}_last"])
        np.add.at(counts, place, column["rows"])
    busy = column["busy"] & (column["end_bin"] > column["ts_bin"])
    covered = _covered(column["ts_bin"][busy], column["end_bin"][busy])
    edges = low + np.arange(BINS + 1) * width
    np.minimum.at(first, column["end_bin"][busy], edges[column["end_bin"][busy]])
    np.maximum.at(last, column["ts_bin"][busy], edges[column["ts_bin"][busy] + 1])
    first[covered], last[covered] = edges[:-1][covered], edges[1:][covered]
    return Moments(first, last, begun, ended)


def _covered(begin: Integers, end: Integers) -> NDArray[np.bool_]:
    """Tell which parts lie wholly within some interval from part `begin` to part `end`."""
    change = np.zeros(BINS + 1, dtype=np.int64)
    np.add.at(change, begin + 1, 1)
    np.add.at(change, end, -1)
    return np.cumsum(change)[:BINS] > 0
