"""A report as JSON for programs: exact numbers, base units, one line."""

from __future__ import annotations

import json
import math
from typing import Any

from pasta.tools.report import ChartPart, Report


def render_json(report: Report) -> str:
    """Return the report as one line of JSON; integers are exact, nan and infinities are null."""
    document = {
        "tool": report.tool,
        "parameters": dict(report.parameters),
        "engine": report.engine,
        "sources": dict(report.sources),
        "facts": report.facts,
        "findings": report.findings,
        "tables": {name: rows.to_dicts() for name, rows in report.tables.items()},
        "charts": [_chart(part) for part in report.parts if isinstance(part, ChartPart)],
        "losses": report.losses,
        "notes": report.notes,
    }
    return json.dumps(_finite(document), ensure_ascii=False, allow_nan=False)


def _chart(part: ChartPart) -> dict[str, Any]:
    rows = part.rows.select(part.columns)
    if part.kind == "bar":
        rows = rows.head(part.limit)
    columns = rows.to_dict(as_series=False)
    return {"kind": part.kind, "title": part.title, "roles": part.roles, "columns": columns}


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value
