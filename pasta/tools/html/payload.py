"""What of a report a page shows, as plain values: columns with their units, charts, the graph."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from pasta.pipeline.graph import Graph
from pasta.tools.html.thinning import rows_that_fit, thinned
from pasta.tools.report import ChartPart, Report, TablePart
from pasta.tools.units import heading, human, unit_of

MOST_ROWS = 100_000
"""Rows of a table or chart that a page of one tool holds; how many more there are, it says."""

MOST_CELLS = 800_000
"""Cells of the tables and charts of all tools on a page of several: each may have as many, of which
the page says how many it leaves out. A cell takes 2 to 3 bytes of the page, at most 10."""

_EXACT = 1 << 53
"""From here on a number of JavaScript is not exact: such columns travel as text."""

_NOT_PLAIN = re.compile("[^ -~]")
"""What may have to be replaced in a text before it is shown."""


def report_payload(report: Report, *, share: int = 1) -> dict[str, Any]:
    """Return a report as values that JSON can hold.

    Args:
        report: what a tool said.
        share: the number of tools on the page. Of several each has the same number of cells, and
            the page says once what their inputs have lost.
    """
    most = MOST_ROWS
    if share > 1:
        shapes = [
            (
                part.rows.height,
                part.rows.width if isinstance(part, TablePart) else len(part.columns),
            )
            for part in report.parts
        ]
        most = min(most, rows_that_fit(shapes, MOST_CELLS // share))
    return {
        "tool": report.tool,
        "about": report.about,
        "findings": report.findings,
        "facts": [[heading(name), human(value, name)] for name, value in report.facts.items()],
        "parts": [
            _table(part, most) if isinstance(part, TablePart) else _chart(part, most)
            for part in report.parts
        ],
        "losses": [
            [loss["collector"], loss["reason"], f"{loss['count']:,}"]
            for loss in (report.losses if share == 1 else ())
        ],
        "notes": report.notes,
        "made": {
            "engine": report.engine,
            "traces": ", ".join(f"{name} ({path})" for name, path in report.sources.items()),
            "parameters": ", ".join(f"{name} = {value}" for name, value in report.parameters.items()),
        },
        "graph": None if report.graph is None else _graph(report.graph),
    }  # fmt: skip


def losses_of(reports: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> list[list[str]]:
    """Return each loss of the inputs of several tools once: collector, reason, count in all traces and tools.

    Args:
        reports: of each, its tool and the losses of its inputs.
    """
    tools: dict[tuple[str, str, int], list[str]] = {}
    for tool, losses in reports:
        counts: Counter[tuple[str, str]] = Counter()
        for loss in losses:  # of each trace
            counts[loss["collector"], loss["reason"]] += loss["count"]
        for (collector, reason), count in counts.items():
            tools.setdefault((collector, reason, count), []).append(tool)
    return [
        [collector, reason, f"{count:,}", "all" if len(of) == len(reports) else ", ".join(of)]
        for (collector, reason, count), of in tools.items()
    ]


def _table(part: TablePart, most: int) -> dict[str, Any]:
    rows = part.rows.head(most)
    first = [name for name in part.columns or () if name in rows.columns]
    rest = [name for name in rows.columns if name not in first]
    return {
        "kind": "table",
        "title": part.title,
        "columns": [
            _column(rows[name], rows.columns, shown=not first or name in first)
            for name in first + rest
        ],
        "rows": rows.height,
        "all_rows": part.rows.height,
    }


def _chart(part: ChartPart, most: int) -> dict[str, Any]:
    rows, caption = thinned(part, most)
    return {
        "kind": part.kind,
        "title": part.title,
        "columns": {name: _column(rows[name], rows.columns) for name in rows.columns},
        "roles": part.roles,
        "log": part.log,
        "rows": rows.height,
        "caption": caption,
    }


def _column(values: pl.Series, beside: Sequence[str], *, shown: bool = True) -> dict[str, Any]:
    kind, cells = _cells(values)
    return {
        "name": values.name,
        "heading": heading(values.name, beside),
        "unit": unit_of(values.name),
        "kind": kind,
        "float": values.dtype.is_float(),
        "shown": shown,
        "cells": cells,
    }


def _cells(values: pl.Series) -> tuple[str, list[Any]]:
    """Return whether the cells are `number`, `whole` (numbers as text) or `text`, and the cells."""
    cells = values.to_list()  # Polars takes longer to begin with a column than for so few cells.
    if values.dtype.is_integer():
        if all(cell is None or -_EXACT < cell < _EXACT for cell in cells):
            return "number", cells
        return "whole", [None if cell is None else str(cell) for cell in cells]
    if values.dtype.is_float():
        return "number", [
            None if cell is None or not math.isfinite(cell) else cell for cell in cells
        ]
    if values.dtype == pl.String and not any(cell and _NOT_PLAIN.search(cell) for cell in cells):
        return "text", cells
    return "text", [None if cell is None else human(cell, values.name) for cell in cells]


def _graph(graph: Graph) -> dict[str, Any]:
    """Return inputs and stages, each with how far it is from the inputs."""
    depths = dict.fromkeys(graph.inputs, 0)
    nodes = [
        {"name": name, "what": f"table {spec.table}", "kind": "input", "depth": 0}
        for name, spec in graph.inputs.items()
    ]
    edges = []
    for name, node in graph.nodes.items():
        depths[name] = 1 + max((depths[source] for source in node.sources), default=0)
        kind = "array" if node.stage.array else node.kind
        nodes.append({"name": name, "what": node.stage.name, "kind": kind, "depth": depths[name]})
        edges += [[source, name] for source in node.sources]
    return {"nodes": nodes, "edges": edges}
