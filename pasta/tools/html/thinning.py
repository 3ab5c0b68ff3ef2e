"""Fewer rows of a part, where a page has no room for all: which ones, and in what words it says so.

Tables keep their first rows. Of charts what the eye would miss least is left out: heat maps are summed into
coarser cells, of points that lie on each other one stays, of lines the peaks and valleys stay, of boxes the
largest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import polars as pl

from pasta.tools.report import ChartPart

LEAST_ROWS = 20
"""Rows of each part that a page holds, however many parts there are."""

_PLACE = "_place"


class Thinned(NamedTuple):
    """The rows of a chart that a page holds, and a sentence about those that it does not."""

    rows: pl.DataFrame
    caption: str


def rows_that_fit(shapes: Iterable[tuple[int, int]], cells: int) -> int:
    """Return the most rows that each part may have for all to have no more than `cells` in all.

    Args:
        shapes: rows and columns of each part; what a small one leaves, larger ones use.
        cells: of all parts; exceeded where not even `LEAST_ROWS` of each fit.
    """
    open_shapes = sorted(shapes)
    while open_shapes:
        limit = cells // max(1, sum(columns for _, columns in open_shapes))
        rows, columns = open_shapes.pop(0)
        if rows > limit:
            return max(limit, LEAST_ROWS)
        cells -= rows * columns
    return max(cells, LEAST_ROWS)


def thinned(part: ChartPart, most: int) -> Thinned:
    """Return the columns of a chart that it shows, in no more than `most` rows."""
    rows = part.rows.select(part.columns)
    if part.kind == "bar":
        most = min(most, part.limit)
    if rows.height <= most:
        return Thinned(rows, "")
    if part.kind == "heatmap":
        kept = _coarser(rows, part, most)
        return Thinned(kept, f"{rows.height:,} rows, summed into {kept.height:,} cells")
    kept = _KEPT.get(part.kind, _first)(rows, part, most)
    if part.column("node"):
        return Thinned(kept, _told_of_frames(rows, part, kept))
    return Thinned(kept, f"{kept.height:,} of {rows.height:,} rows")


def _told_of_frames(rows: pl.DataFrame, part: ChartPart, kept: pl.DataFrame) -> str:
    """Return how many frames stay, the widest, and how wide the others are at most."""
    weights, node = pl.col(part.column("y")).cast(pl.Float64), part.column("node")
    narrow = rows.join(kept, on=node, how="anti").select(weights.max()).item()
    whole = rows.filter(pl.col(part.column("parent")) == 0).select(weights.sum()).item()
    share = f"{100 * (narrow or 0) / (whole or 1):.2g}"
    return f"the widest {kept.height:,} of {rows.height:,} frames; each of the others has at most {share} % of all"


def _first(rows: pl.DataFrame, _part: ChartPart, most: int) -> pl.DataFrame:
    return rows.head(most)


def _lines(rows: pl.DataFrame, part: ChartPart, most: int) -> pl.DataFrame:
    """Return the rows that stand for most; where none says for how many, as many evenly."""
    if part.column("value"):
        return _largest(rows, part, most)
    return rows.gather_every(-(-rows.height // most))


def _largest(rows: pl.DataFrame, part: ChartPart, most: int) -> pl.DataFrame:
    """Return the rows whose boxes are largest, in their order."""
    size = part.column("value") or part.column("y")
    placed = rows.with_row_index(_PLACE).sort(
        size, _PLACE, descending=[True, False], nulls_last=True
    )
    return placed.head(most).sort(_PLACE).drop(_PLACE)


def _apart(rows: pl.DataFrame, part: ChartPart, most: int) -> pl.DataFrame:
    """Return of the points in each cell of a grid the first; those that a line joins all stay."""
    pieces = math.isqrt(most)
    cells = [_piece(part.column(role), pieces, log=part.log) for role in ("x", "y")]
    kept = pl.struct(cells).is_first_distinct()
    if path := part.column("path"):
        kept |= pl.col(path).is_not_null()
    return rows.filter(kept)


def _extremes(rows: pl.DataFrame, part: ChartPart, most: int) -> pl.DataFrame:
    """Return the lowest and the highest row of each piece of each line, in their order."""
    series = [part.column("series")] if part.column("series") else []
    pieces = max(1, most // (2 * max(1, rows.select(series).n_unique() if series else 1)))
    ordered = rows.sort(part.column("x"), maintain_order=True).with_row_index(_PLACE)
    y = pl.col(part.column("y"))
    piece = (pl.int_range(pl.len()) * pieces // pl.len()).alias("_piece")
    cut = ordered.with_columns(piece.over(series) if series else piece)
    places = pl.col(_PLACE)
    kept = cut.group_by(*series, "_piece").agg(
        places.get(y.arg_min()), places.get(y.arg_max()).alias("_high")
    )
    wanted = pl.concat([kept[_PLACE], kept["_high"]]).drop_nulls().unique()
    return ordered.filter(places.is_in(wanted.implode())).drop(_PLACE)


def _coarser(rows: pl.DataFrame, part: ChartPart, most: int) -> pl.DataFrame:
    """Return sums of `value` in cells of a grid, each at the least `x` and `y` of its row and column."""
    x, y, value = (part.column(role) for role in ("x", "y", "value"))
    values = pl.col(y).n_unique()
    lanes = min(int(rows.select(values).item()), max(1, math.isqrt(most // 2)))
    lane = (pl.col(y).rank("dense").cast(pl.Int64) - 1) * lanes // values
    cut = rows.select(pl.all(), _column=_piece(x, most // lanes, log=False), _lane=lane)
    least = [pl.col(x).min().over("_column"), pl.col(y).min().over("_lane")]
    summed = cut.with_columns(least).group_by(x, y, maintain_order=True).agg(pl.col(value).sum())
    return summed.select(rows.columns)


def _piece(column: str, pieces: int, *, log: bool) -> pl.Expr:
    """Return which of equally wide pieces of its axis a value is in."""
    value = pl.col(column).cast(pl.Float64)
    if log:
        value = pl.when(value > 0).then(value.log())
    offset, width = value - value.min(), value.max() - value.min()
    return (offset / width * pieces).fill_nan(0).floor().clip(0, pieces - 1).alias(f"_{column}")


_KEPT = {
    "line": _extremes,
    "scatter": _apart,
    "parallel": _lines,
    "interval": _largest,
    "flame": _largest,
}
