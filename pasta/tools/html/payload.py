"""What of a report a page shows, as plain values: columns with their units, charts, the graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import polars as pl

from pasta.pipeline.graph import Graph
from pasta.tools.report import ChartPart, Report, TablePart
from pasta.tools.units import heading, human, unit_of

MOST_ROWS = 100_000
"""Rows of a table or chart that a page holds; how many more there are, it says."""

_EXACT = 1 << 53
"""From here on a number of JavaScript is not exact: such columns travel as text."""


def report_payload(report: Report, *, losses: bool = True) -> dict[str, Any]:
    """Return a report as values that JSON can hold, with or without what its inputs have lost."""
    return {
        "tool": report.tool,
        "about": report.about,
        "findings": report.findings,
        "facts": [[heading(name), human(value, name)] for name, value in report.facts.items()],
        "parts": [
            _table(part) if isinstance(part, TablePart) else _chart(part) for part in report.parts
        ],
        "losses": [
            [loss["collector"], loss["reason"], f"{loss['count']:,}"]
            for loss in (report.losses if losses else ())
        ],
        "notes": report.notes,
        "made": {
            "engine": report.engine,
            "traces": ", ".join(f"{name} ({path})" for name, path in report.sources.items()),
            "parameters": ", ".join(f"{name} = {value}" for name, value in report.parameters.items()),
        },
        "graph": None if report.graph is None else _graph(report.graph),
    }  # fmt: skip


def losses_of(reports: Sequence[Report]) -> list[list[str]]:
    """Return each loss of the inputs of several tools once: collector, reason, count and tools."""
    tools: dict[tuple[str, str, int], list[str]] = {}
    for report in reports:
        for loss in report.losses:
            given = (loss["collector"], loss["reason"], loss["count"])
            tools.setdefault(given, []).append(report.tool)
    return [
        [collector, reason, f"{count:,}", "all" if len(of) == len(reports) else ", ".join(of)]
        for (collector, reason, count), of in tools.items()
    ]


def _table(part: TablePart) -> dict[str, Any]:
    rows = part.rows.head(MOST_ROWS)
    first = [name for name in part.columns or () if name in rows.columns]
    rest = [name for name in rows.columns if name not in first]
    return {
        "kind": "table",
        "title": part.title,
        "columns": [_column(rows[name], shown=not first or name in first) for name in first + rest],
        "rows": rows.height,
        "all_rows": part.rows.height,
    }


def _chart(part: ChartPart) -> dict[str, Any]:
    rows = part.rows.select(part.columns)
    limited = rows.head(part.limit) if part.kind == "bar" else rows.head(MOST_ROWS)
    return {
        "kind": part.kind,
        "title": part.title,
        "columns": {name: _column(limited[name]) for name in limited.columns},
        "roles": part.roles,
        "log": part.log,
        "rows": limited.height,
        "all_rows": rows.height,
    }


def _column(values: pl.Series, *, shown: bool = True) -> dict[str, Any]:
    kind, cells = _cells(values)
    return {
        "name": values.name,
        "heading": heading(values.name),
        "unit": unit_of(values.name),
        "kind": kind,
        "float": values.dtype.is_float(),
        "shown": shown,
        "cells": cells,
    }


def _cells(values: pl.Series) -> tuple[str, list[Any]]:
    """Return whether the cells are `number`, `whole` (numbers as text) or `text`, and the cells."""
    if values.dtype.is_integer():
        cells = values.to_list()
        if all(cell is None or -_EXACT < cell < _EXACT for cell in cells):
            return "number", cells
        return "whole", [None if cell is None else str(cell) for cell in cells]
    if values.dtype.is_float():
        return "number", [
            None if cell is None or not math.isfinite(cell) else cell for cell in values.to_list()
        ]
    return "text", [None if cell is None else human(cell, values.name) for cell in values.to_list()]


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
