"""A report as text for a terminal: findings first, tables that fit the width, human units."""

from __future__ import annotations

from typing import Any, Literal

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pasta.tools.heatmap import print_heatmap
from pasta.tools.report import MOST_LOSSES, ChartPart, Report, TablePart
from pasta.tools.units import heading, human, printable, shorten

_BARS = " ▏▎▍▌▋▊▉█"
_SPARKS = "▁▂▃▄▅▆▇█"
_CONSTANT_COLUMNS = ("trace", "rank", "pid")
_LEAST_NAME = 24
_TRANSPOSED_ROWS = 4
_MOST_BARS = 40


def print_report(report: Report, console: Console) -> None:
    """Print `report`; names from traces are shown as they are, never read as markup."""
    console.print(_text(f"{report.tool}: {report.about}", style="bold"))
    for note in report.notes:
        console.print(_text(note, style="dim"))
    console.print()
    for finding in report.findings:
        console.print(_text(f"• {finding}"))
    if report.findings:
        console.print()
    if report.facts:
        console.print(_facts_table(report.facts))
        console.print()
    for part in report.parts:
        if isinstance(part, TablePart):
            _print_table(part, console)
        else:
            _print_chart(part, console)
        console.print()
    _print_losses(report.losses, console)


def _text(text: str, style: str = "") -> Text:
    """Return text that is neither markup nor able to drive the terminal."""
    return Text(printable(text), style=style)


def _facts_table(facts: dict[str, Any]) -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in facts.items():
        table.add_row(Text(heading(name)), Text(human(value, name), justify="right"))
    return table


def _print_table(part: TablePart, console: Console) -> None:
    rows = _without_constant_columns(part.shown)
    if rows.height == 0:
        told = (
            f"{part.rows.height:,} rows, all with --format json" if part.rows.height else "no rows"
        )
        console.print(_text(f"{part.title}: {told}", style="italic"))
        return
    console.print(_text(part.title, style="bold"))
    columns = [_Column(name, rows) for name in rows.columns]
    shown = _that_fit(columns, console.width)
    if len(shown) < len(columns) and rows.height <= _TRANSPOSED_ROWS:
        console.print(_tall_table(columns))
    else:
        console.print(_wide_table(shown, console.width))
    remarks = []
    if len(shown) < len(columns) and rows.height > _TRANSPOSED_ROWS:
        remarks.append("too narrow for " + ", ".join(c.heading for c in columns[len(shown) :]))
    if part.rows.height > part.limit:
        remarks.append(f"{part.limit} of {part.rows.height:,} rows")
    if remarks:
        console.print(Text("; ".join([*remarks, "all with --format json"]), style="dim"))


def compact_table(rows: pl.DataFrame, width: int) -> Table:
    """Return rows as a table without a frame: the first columns, as many as fit."""
    rows = _without_constant_columns(rows)
    columns = [_Column(name, rows) for name in rows.columns]
    table = _wide_table(_that_fit(columns, width), width)
    table.box = None
    return table


class _Column:
    """A column as texts, with the width it wants and the least it can live with."""

    def __init__(self, name: str, rows: pl.DataFrame) -> None:
        self.heading = heading(name, rows.columns)
        self.numeric = rows.schema[name].is_numeric()
        self.cells = [human(value, name) for value in rows[name].to_list()]
        longest_cell = max(map(len, self.cells), default=0)
        longest_word = max(map(len, self.heading.split()), default=1)
        self.wanted = max(len(self.heading), longest_cell)
        self.least = max(
            longest_word, longest_cell if self.numeric else min(longest_cell, _LEAST_NAME)
        )


def _that_fit(columns: list[_Column], width: int) -> list[_Column]:
    """Return the first columns whose least widths fit, borders and padding included."""
    count = len(columns)
    while count > 1 and sum(c.least + 3 for c in columns[:count]) + 1 > width:
        count -= 1
    return columns[:count]


def _wide_table(columns: list[_Column], width: int) -> Table:
    """A row for each row; numbers are never cut, headings wrap and long names lose their middle."""
    spare = width - sum(column.least + 3 for column in columns) - 1
    table = Table(header_style="bold")
    cells = []
    for column in columns:
        own = min(column.wanted, column.least + max(spare, 0))
        spare -= own - column.least
        justify: Literal["left", "right"] = "right" if column.numeric else "left"
        table.add_column(Text(column.heading), justify=justify, width=own)
        cells.append([shorten(text, own) for text in column.cells])
    for row in zip(*cells, strict=True):
        table.add_row(*map(Text, row))
    return table


def _tall_table(columns: list[_Column]) -> Table:
    """A line for each column, for few rows of many columns."""
    table = Table(show_header=False)
    table.add_column(style="bold")
    for _ in columns[0].cells:
        table.add_column(justify="right", overflow="ellipsis")
    for column in columns:
        table.add_row(Text(column.heading), *(Text(shorten(c)) for c in column.cells))
    return table


def _without_constant_columns(rows: pl.DataFrame) -> pl.DataFrame:
    """Leave out the trace, rank and process where there is only one."""
    constant = [c for c in _CONSTANT_COLUMNS if c in rows.columns and rows[c].n_unique() <= 1]
    return rows.drop(constant) if len(constant) < rows.width else rows


def _print_chart(part: ChartPart, console: Console) -> None:
    console.print(_text(part.title, style="bold"))
    if part.rows.height == 0:
        console.print(Text("no rows", style="italic"))
    elif part.kind == "bar":
        _print_bars(part, console)
    elif part.kind == "heatmap":
        print_heatmap(part, console)
    elif part.kind == "line":
        _print_line(part, console)
    else:
        console.print(Text(f"a {part.kind} chart: --format html draws it", style="dim"))


def _print_bars(part: ChartPart, console: Console) -> None:
    """Print a bar for each row; the column of series tells apart those of one `x`."""
    x, y, series = part.column("x"), part.column("y"), part.column("series")
    rows = part.rows.head(min(part.limit, _MOST_BARS))
    labels = [human(value, x) for value in rows[x]]
    if series and len(set(labels)) < rows.height:
        of_series = (human(value, series) for value in rows[series])
        labels = [f"{label}, {name}" for label, name in zip(labels, of_series, strict=True)]
    lengths = rows[y].cast(pl.Float64).fill_nan(None).fill_null(0).abs()
    largest = max(lengths, default=0) or 1
    table = Table(show_header=False, box=None, padding=(0, 1, 0, 0))
    table.add_column(overflow="ellipsis", no_wrap=True, max_width=64)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for label, length, value in zip(labels, lengths, rows[y], strict=True):
        bar = _bar(length / largest, 30)
        table.add_row(Text(label), Text(bar), Text(human(value, y)))
    console.print(table)
    if part.rows.height > rows.height:
        console.print(Text(f"{rows.height} of {part.rows.height:,} rows", style="dim"))


def _bar(share: float, width: int) -> str:
    eighths = round(share * width * 8)
    return "█" * (eighths // 8) + _BARS[eighths % 8].strip()


def _print_line(part: ChartPart, console: Console) -> None:
    """Draw the largest value of each of as many slices of `x` as fit the width."""
    x, y = part.column("x"), part.column("y")
    rows = part.rows.select(x, y).drop_nulls().drop_nans().sort(x)
    if rows.height == 0:
        console.print(Text("no rows", style="italic"))
        return
    width = max(10, min(console.width, 100) - 2)
    first, last = rows[x][0], rows[x][-1]
    slices = ((pl.col(x) - first) * (width - 1)) // ((last - first) or 1)
    largest = dict(rows.group_by(slices.alias("slice")).agg(pl.col(y).max()).iter_rows())
    top = max(largest.values()) or 1
    line, value = [], 0
    for position in range(width):
        value = largest.get(position, value)
        line.append(_SPARKS[min(7, max(0, int(value * 8 / top)))])
    console.print(Text("".join(line)))
    console.print(Text(f"top of the chart: {human(max(largest.values()), y)}", style="dim"))


def _print_losses(losses: list[dict[str, Any]], console: Console) -> None:
    if not losses:
        return
    console.print(Text("Losses in the input", style="bold"))
    table = Table(header_style="bold")
    table.add_column("collector")
    table.add_column("what was lost or not trusted")
    table.add_column("count", justify="right")
    for loss in losses[:MOST_LOSSES]:
        table.add_row(*(_text(human(loss[key], key)) for key in ("collector", "reason", "count")))
    console.print(table)
    if len(losses) > MOST_LOSSES:
        told = f"{MOST_LOSSES} of {len(losses):,} kinds; all with --format json"
        console.print(Text(told, style="dim"))
