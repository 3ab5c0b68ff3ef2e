"""What a terminal shows while a program is recorded: rates, losses, and a tool's report so far."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from pasta.pipeline.live import LiveGraph
from pasta.tools.report import Report, TablePart, build_report
from pasta.tools.text import compact_table
from pasta.tools.units import human, printable


@dataclass(frozen=True)
class Status:
    """How a recording fares.

    Attributes:
        seconds: how long it has gone on.
        rows: rows by table so far.
        bytes: size of the trace so far.
        losses: rows or batches lost so far, by reason.
        fill: how full the fullest ring of shared memory is, from 0 to 1.
        processes: processes that are alive.
    """

    seconds: float
    rows: Mapping[str, int]
    bytes: int
    losses: Mapping[str, int]
    fill: float
    processes: int


def live_report(live: LiveGraph, run: str) -> Report:
    """Return what a tool's YAML says about the rows so far, as far as it can refresh.

    Raises:
        PastaError: the engine failed, or the rows do not fit the report.
    """
    config = live.config
    ready = [
        item
        for item in config.report
        if all(
            item.options.get(key) in (None, *live.live_nodes) for key in ("from", "facts", "table")
        )
    ]
    report = Report(
        tool=config.name,
        about=config.about,
        parameters=live.graph.parameters,
        engine=live.engine.name,
        sources={run: run},
        notes=[f"at the end: {name} ({why})" for name, why in live.waiting.items()],
    )
    shown = dataclasses.replace(config, report=tuple(ready), report_function=None)
    build_report(report, shown, [], live.tables())
    return report


def view(
    statuses: tuple[Status, Status], report: Report | None, size: tuple[int, int], left_out: int = 0
) -> RenderableType:
    """Return what is shown: a line of rates, one of losses, and the top of the report.

    Args:
        statuses: a status of a moment ago, for rates, and that of now.
        report: the tool's report so far, if a tool runs.
        size: columns and lines.
        left_out: rows that the report so far does not count.
    """
    width, lines = size
    parts: list[RenderableType] = [_rates(*statuses), _losses(statuses[1], left_out)]
    if report is not None:
        parts += [_line(f"• {finding}") for finding in report.findings[:1]]
        parts += _top_rows(report, width, lines - len(parts))
    return Group(*parts)


def _rates(before: Status, now: Status) -> Text:
    lasted = max(now.seconds - before.seconds, 1e-9)
    rates = {
        table: (count - before.rows.get(table, 0)) / lasted for table, count in now.rows.items()
    }
    busiest = sorted((table for table in rates if rates[table] > 0), key=lambda t: -rates[t])
    written = human(round((now.bytes - before.bytes) / lasted), "bytes")
    number = "1 process" if now.processes == 1 else f"{now.processes} processes"
    told = [f"pasta {now.seconds:.0f} s", number, f"shared memory {100 * now.fill:.0f} %"]
    told += [f"{written}/s written", *(f"{table} {rates[table]:,.0f}/s" for table in busiest)]
    return _line("  ".join(told), style="bold")


def _losses(now: Status, left_out: int) -> Text:
    lost = sorted(now.losses.items(), key=lambda loss: -loss[1])
    told = "; ".join(f"{count:,} {reason}" for reason, count in lost if count)
    view_only = f" (this view leaves out {left_out:,} rows)" if left_out else ""
    style = "red" if told else "dim"
    return _line((f"lost: {told}" if told else "nothing lost") + view_only, style=style)


def _top_rows(report: Report, width: int, lines: int) -> list[RenderableType]:
    """Return the report's first table, else its facts, else when it comes."""
    tables = [part for part in report.parts if isinstance(part, TablePart)]
    if tables and lines > 2:
        shown = tables[0].shown.head(lines - 1)
        return [compact_table(shown, width)]
    if report.facts:
        facts = "  ".join(f"{name} {human(value, name)}" for name, value in report.facts.items())
        return [_line(facts)]
    return [_line(f"{report.tool}: {note}", style="dim") for note in report.notes[:1]]


def _line(text: str, style: str = "") -> Text:
    """Return one line, of text that can neither be markup nor drive the terminal."""
    return Text(printable(text), style=style, no_wrap=True, overflow="ellipsis")
