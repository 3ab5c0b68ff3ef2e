"""A heat map as text: a shade for each piece of both axes, on a logarithmic scale."""

from __future__ import annotations

import math

import polars as pl
from rich.console import Console
from rich.text import Text

from pasta.tools.report import ChartPart
from pasta.tools.units import human

MOST_ROWS = 24
_WIDEST = 100
_SHADES = "░▒▓█"


def print_heatmap(part: ChartPart, console: Console) -> None:
    """Draw sums of `value`: `x` is cut evenly, of `y` neighbouring values share a row.

    Values of `y` that do not occur take no room, as the addresses between allocations.
    """
    named = {role: pl.col(part.column(role)) for role in ("x", "y", "value")}
    rows = part.rows.select(**named).drop_nulls().filter(pl.col("value") > 0)
    if rows.height == 0:
        console.print(Text("no rows", style="italic"))
        return
    labels, cells = _binned(rows, part, min(console.width, _WIDEST))
    smallest, largest = min(cells.values()), max(cells.values())
    width = max(column for _, column in cells) + 1
    for row, label in enumerate(labels):
        shades = [_shade(cells.get((row, column)), smallest, largest) for column in range(width)]
        console.print(Text(f"{label} {''.join(shades).rstrip()}"))
    value = part.column("value")
    ends = [human(end, value) for end in (smallest, largest)]
    scale = f"{_SHADES[0]} from {ends[0]}, {_SHADES[-1]} up to {ends[1]} {value}, logarithmic"
    console.print(Text(f"{scale}; {part.column('x')} from left to right", style="dim"))


def _binned(
    rows: pl.DataFrame, part: ChartPart, width: int
) -> tuple[list[str], dict[tuple[int, int], float]]:
    """Return the label of each row, and the sum in each (row, column)."""
    values = rows["y"].unique().sort()
    per_row = -(-len(values) // MOST_ROWS)
    labels = [human(value, part.column("y")) for value in values.gather_every(per_row)]
    longest = max(map(len, labels))
    offset = pl.col("x") - pl.col("x").min()
    span, columns = offset.max() + 1, max(10, width - longest - 1)
    column = (offset * pl.min_horizontal(span, columns) // span).cast(pl.Int64)
    place = pl.col("y").replace_strict(values, range(len(values)), return_dtype=pl.Int64)
    located = rows.select("value", row=place // per_row, column=column)
    summed = located.group_by("row", "column").agg(pl.col("value").sum())
    cells = {(row, column): value for row, column, value in summed.iter_rows()}
    return [label.rjust(longest) for label in labels], cells


def _shade(value: float | None, smallest: float, largest: float) -> str:
    if value is None:
        return " "
    share = math.log(value / smallest) / math.log(largest / smallest) if value > smallest else 0.0
    return _SHADES[min(len(_SHADES) - 1, int(share * len(_SHADES)))]
