"""A report as HTML for a notebook cell."""

from __future__ import annotations

from html import escape

from pasta.tools.report import MOST_LOSSES, Report, TablePart
from pasta.tools.units import heading, human


def render_html(report: Report) -> str:
    """Return findings, facts, tables and losses as an HTML fragment; every name is escaped."""
    lines = [f"<h3>{escape(report.tool)}</h3><p>{escape(report.about)}</p>"]
    lines += [f"<p>{escape(note)}</p>" for note in report.notes]
    lines.append("<ul>" + "".join(f"<li>{escape(f)}</li>" for f in report.findings) + "</ul>")
    if report.facts:
        rows = [[heading(name), human(value, name)] for name, value in report.facts.items()]
        lines.append(_table(["fact", "value"], rows))
    for part in report.parts:
        if isinstance(part, TablePart) and part.limit:
            columns = part.shown.columns
            cells = [
                [human(value, name) for name, value in zip(columns, row, strict=True)]
                for row in part.shown.iter_rows()
            ]
            lines.append(
                f"<h4>{escape(part.title)}</h4>"
                + _table([heading(name, columns) for name in columns], cells)
            )
    if report.losses:
        cells = [
            [loss["collector"], loss["reason"], str(loss["count"])]
            for loss in report.losses[:MOST_LOSSES]
        ]
        lines.append("<h4>Losses in the input</h4>")
        lines.append(_table(["collector", "reason", "count"], cells))
        if (more := len(report.losses) - MOST_LOSSES) > 0:
            lines.append(f"<p>... and {more:,} more kinds; all in the report's losses</p>")
    return "\n".join(lines)


def _table(columns: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
