"""A report as text for a terminal: findings first, tables that fit the width, human units."""

from __future__ import annotations

from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pasta.tools.report import ChartPart, Report, TablePart
from pasta.tools.units import heading, human

_BARS = " ▏▎▍▌▋▊▉█"
_SPARKS = "▁▂▃▄▅▆▇█"
_CONSTANT_COLUMNS = ("trace", "rank", "pid")
_LONGEST_CELL = 80
_LEAST_NAME = 24
_TRANSPOSED_ROWS = 4


def print_report(report: Report, console: Console) -> None:
    """Print `report`; names from traces are shown as they are, never read as markup."""
    console.print(Text(f"{report.tool}: {report.about}", style="bold"))
    for note in report.notes:
        console.print(Text(note, style="dim"))
    console.print()
    for finding in report.findings:
        console.print(Text(f"• {finding}"))
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


def _facts_table(facts: dict[str, Any]) -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in facts.items():
        table.add_row(Text(heading(name)), Text(human(value, name), justify="right"))
    return table


def _print_table(part: TablePart, console: Console) -> None:
    rows = _without_constant_columns(part.rows)
    if rows.height == 0:
        console.print(Text(f"{part.title}: no rows", style="italic"))
        return
    console.print(Text(part.title, style="bold"))
    shown = rows.head(part.limit)
    cells = [
        [_short(human(value, name)) for value in column]
        for name, column in zip(shown.columns, shown.iter_columns(), strict=True)
    ]
    widths = [
        _least_width(shown, name, texts) for name, texts in zip(shown.columns, cells, strict=True)
    ]
    if sum(widths) + 3 * len(widths) + 1 <= console.width:
        console.print(_wide_table(shown, cells, widths))
    elif shown.height <= _TRANSPOSED_ROWS:
        console.print(_tall_table(shown, cells))
    else:
        _print_narrowed(shown, cells, widths, console)
    if rows.height > part.limit:
        note = f"{part.limit} of {rows.height:,} rows; all with --format json"
        console.print(Text(note, style="dim"))


def _least_width(rows: pl.DataFrame, name: str, texts: list[str]) -> int:
    """Numbers are never cut, names may be; a heading wraps between words."""
    longest_word = max(map(len, heading(name).split()), default=1)
    longest_cell = max(map(len, texts), default=0)
    numeric = rows.schema[name].is_numeric()
    return max(longest_word, longest_cell if numeric else min(longest_cell, _LEAST_NAME))


def _wide_table(rows: pl.DataFrame, cells: list[list[str]], widths: list[int]) -> Table:
    table = Table(header_style="bold")
    for name, width in zip(rows.columns, widths, strict=True):
        numeric = rows.schema[name].is_numeric()
        table.add_column(
            Text(heading(name)),
            justify="right" if numeric else "left",
            min_width=width,
            overflow="ellipsis",
        )
    for row in zip(*cells, strict=True):
        table.add_row(*map(Text, row))
    return table


def _tall_table(rows: pl.DataFrame, cells: list[list[str]]) -> Table:
    """A line for each column, for few rows of many columns."""
    table = Table(show_header=False)
    table.add_column(style="bold")
    for _ in range(rows.height):
        table.add_column(justify="right", overflow="ellipsis")
    for name, texts in zip(rows.columns, cells, strict=True):
        table.add_row(Text(heading(name)), *map(Text, texts))
    return table


def _print_narrowed(
    rows: pl.DataFrame, cells: list[list[str]], widths: list[int], console: Console
) -> None:
    """Print the first columns that fit, and name the others."""
    count = len(widths)
    while count > 1 and sum(widths[:count]) + 3 * count + 1 > console.width:
        count -= 1
    console.print(_wide_table(rows.select(rows.columns[:count]), cells[:count], widths[:count]))
    left_out = ", ".join(heading(name) for name in rows.columns[count:])
    console.print(Text(f"too narrow for: {left_out}; all with --format json", style="dim"))


def _without_constant_columns(rows: pl.DataFrame) -> pl.DataFrame:
    """Leave out the trace, rank and process where there is only one."""
    constant = [c for c in _CONSTANT_COLUMNS if c in rows.columns and rows[c].n_unique() <= 1]
    return rows.drop(constant) if len(constant) < rows.width else rows


def _print_chart(part: ChartPart, console: Console) -> None:
    console.print(Text(part.title, style="bold"))
    if part.rows.height == 0:
        console.print(Text("no rows", style="italic"))
    elif part.kind == "bar":
        _print_bars(part, console)
    else:
        _print_line(part, console)


def _print_bars(part: ChartPart, console: Console) -> None:
    rows = part.rows.head(20)
    largest = max((abs(v) for v in rows[part.y].to_list() if v is not None), default=0) or 1
    table = Table(show_header=False, box=None, padding=(0, 1, 0, 0))
    table.add_column(overflow="ellipsis", no_wrap=True, max_width=48)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for label, value in rows.select(part.x, part.y).iter_rows():
        bar = _bar(abs(value or 0) / largest, 30)
        table.add_row(Text(human(label, part.x)), Text(bar), Text(human(value, part.y)))
    console.print(table)


def _bar(share: float, width: int) -> str:
    eighths = round(share * width * 8)
    return "█" * (eighths // 8) + _BARS[eighths % 8].strip()


def _print_line(part: ChartPart, console: Console) -> None:
    """Draw the largest value of each of as many slices of `x` as fit the width."""
    rows = part.rows.select(part.x, part.y).drop_nulls().sort(part.x)
    if rows.height == 0:
        console.print(Text("no rows", style="italic"))
        return
    width = max(10, min(console.width, 100) - 2)
    first, last = rows[part.x][0], rows[part.x][-1]
    slices = ((pl.col(part.x) - first) * (width - 1)) // max(last - first, 1)
    largest = dict(rows.group_by(slices.alias("slice")).agg(pl.col(part.y).max()).iter_rows())
    top = max(1, *largest.values())
    line, value = [], 0
    for position in range(width):
        value = largest.get(position, value)
        line.append(_SPARKS[min(7, max(0, value * 8 // top if value else 0))])
    console.print(Text("".join(line)))
    console.print(Text(f"top of the chart: {human(top, part.y)}", style="dim"))


def _print_losses(losses: list[dict[str, Any]], console: Console) -> None:
    if not losses:
        return
    console.print(Text("Losses in the input", style="bold"))
    table = Table(header_style="bold")
    table.add_column("collector")
    table.add_column("what was lost or not trusted")
    table.add_column("count", justify="right")
    for loss in losses:
        table.add_row(Text(loss["collector"]), Text(loss["reason"]), Text(f"{loss['count']:,}"))
    console.print(table)


def _short(text: str) -> str:
    """Cut the middle out of long names, so that both ends stay readable."""
    if len(text) <= _LONGEST_CELL:
        return text
    half = (_LONGEST_CELL - 1) // 2
    return f"{text[:half]}…{text[-half:]}"
