"""Slices of time: intervals cut at their borders, and results of slices rejoined there.

An interval that lasts at a border has a part in both slices. Of what a stage makes of a slice, only the
first and the last interval of each group can go on in another slice, or follow one there: the *edges*.
All others are final, so that they can be summed up and forgotten before other slices are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from pasta.pipeline.graph import Node

SLICE = "# slice"
"""Holds the number of the slice in edges, and null in final rows."""

_END, _NEXT, _RUN = "# end", "# next", "# run"
_LATEST = (1 << 63) - 1


@dataclass(frozen=True)
class TimeSlice:
    """The time from `begin` up to, and without, `end`.

    Attributes:
        begin: its first moment, ns.
        end: the first moment after it, ns.
        longest: of all intervals, in every slice; none that began earlier before `begin` lasts then.
    """

    begin: int
    end: int
    longest: int

    def clipped(self, rows: pl.LazyFrame, start: str, duration: str) -> pl.LazyFrame:
        """Return the parts in the slice of the intervals that last in it."""
        starts, ends = pl.col(start), pl.col(start) + pl.col(duration)
        lasting = rows.filter(
            starts >= self.begin - self.longest, starts < self.end, ends > self.begin
        )
        begun = pl.max_horizontal(starts, pl.lit(self.begin))
        parts = pl.min_horizontal(ends, pl.lit(self.end)) - begun
        return lasting.with_columns(begun.alias(start), parts.alias(duration))


def equal_slices(
    groups: Sequence[tuple[float, float, int]], longest: float, rows: int
) -> list[TimeSlice]:
    """Cut time such that about `rows` rows begin in each slice.

    Args:
        groups: first and last time and number of the rows that lie together in a file.
        longest: of their intervals, ns.
        rows: how many should begin in a slice; more do where they lie together.

    Returns:
        Slices that follow each other; none where times are unknown or leave the 64 bits.
    """
    begins: list[int] = []
    count = 0
    for first, last, size in sorted(groups):
        if not abs(first) + abs(last) + 2 * longest < _LATEST:
            return []
        if not begins or (count + size > rows and first > begins[-1]):
            begins.append(int(first))
            count = 0
        count += size
    if not begins:
        return []
    ends = [*begins[1:], int(max(last for _, last, _ in groups)) + int(longest) + 1]
    return [TimeSlice(begin, end, int(longest)) for begin, end in zip(begins, ends, strict=True)]


def marked(pieces: pl.DataFrame, node: Node, number: int) -> pl.DataFrame:
    """Add `SLICE`: the number of the slice in the first and last row of each group."""
    first = _opens(node.arguments["by"])
    edge = first | first.shift(-1, fill_value=True)
    return pieces.with_columns(pl.when(edge).then(pl.lit(number, pl.Int64)).alias(SLICE))


def rejoined(edges: pl.DataFrame, node: Node) -> pl.DataFrame:
    """Return the intervals that the edges of all slices are parts of, in no order.

    What touches and has equal flags is one interval. Where nothing lasted for a while around a border,
    a stage that fills gaps has one there.
    """
    by, start, duration, flags = _columns(node)
    edges = edges.with_columns((pl.col(start) + pl.col(duration)).alias(_END)).sort(*by, start)
    if node.stage.sliced is not None and node.stage.sliced.fills:
        edges = pl.concat([edges, _holes(edges, by, start, flags)]).sort(*by, start)
    opens = _opens([*by, *flags]) | (pl.col(start) != pl.col(_END).shift()).fill_null(value=True)
    runs = edges.with_columns(opens.cum_sum().alias(_RUN)).group_by(_RUN)
    return runs.agg(
        *(pl.col(name).first() for name in by),
        pl.col(start).first(),
        (pl.col(_END).last() - pl.col(start).first()).alias(duration),
        *(pl.col(name).first() for name in flags),
    ).drop(_RUN)


def _holes(edges: pl.DataFrame, by: list[str], start: str, flags: list[str]) -> pl.DataFrame:
    """Return what lies between the last interval of a group in a slice and its next elsewhere."""
    followed = ~_opens(by).shift(-1, fill_value=True)
    elsewhere = pl.col(SLICE) != pl.col(SLICE).shift(-1)
    gap = pl.col(_END) < pl.col(start).shift(-1)
    before = edges.with_columns(pl.col(start).shift(-1).alias(_NEXT))
    return before.filter(followed & elsewhere & gap).select(
        pl.col(_END).alias(name)
        if name == start
        else pl.col(_NEXT).alias(_END)
        if name == _END
        else pl.lit(value=False).alias(name)
        if name in flags
        else pl.col(name)
        for name in edges.columns
    )


def _columns(node: Node) -> tuple[list[str], str, str, list[str]]:
    given, sliced = node.arguments, node.stage.sliced
    flags = [] if sliced is None else list(sliced.flags(given))
    return given["by"], given["start"], given["duration"], flags


def _opens(columns: Sequence[str]) -> pl.Expr:
    """Tell of each row whether it is the first, or differs from the one before in a column."""
    differs = [pl.col(name).ne_missing(pl.col(name).shift()) for name in columns]
    return pl.any_horizontal(pl.int_range(pl.len()) == 0, *differs)
