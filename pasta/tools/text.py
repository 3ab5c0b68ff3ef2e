"""A report as text for a terminal: findings first, tables that fit the width, human units."""

from __future__ import annotations

from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pasta.tools.report import ChartPart, Report, TablePart
from pasta.tools.units import human

_BARS = " ▏▎▍▌▋▊▉█"
_SPARKS = "▁▂▃▄▅▆▇█"
_CONSTANT_COLUMNS = ("trace", "rank", "pid")
_LONGEST_CELL = 80


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
        table.add_row(Text(name.replace("_", " ")), Text(human(value, name), justify="right"))
    return table


def _print_table(part: TablePart, console: Console) -> None:
    rows = _without_constant_columns(part.rows)
    if rows.height == 0:
        console.print(Text(f"{part.title}: no rows", style="italic"))
        return
    table = Table(title=Text(part.title), title_justify="left", header_style="bold", expand=False)
    for name, kind in rows.schema.items():
        numeric = kind.is_numeric()
        table.add_column(
            Text(name.replace("_", " ")),
            justify="right" if numeric else "left",
            no_wrap=numeric,
            overflow="fold" if numeric else "ellipsis",
        )
    for row in rows.head(part.limit).iter_rows():
        cells = zip(rows.columns, row, strict=True)
        table.add_row(*(Text(_short(human(value, name))) for name, value in cells))
    console.print(table)
    if rows.height > part.limit:
        console.print(
            Text(f"{part.limit} of {rows.height:,} rows; all with --format json", style="dim")
        )


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
    table = Table(title=Text("Losses in the input"), title_justify="left", header_style="bold")
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
