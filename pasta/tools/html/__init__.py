"""Reports as one HTML file that works offline: findings, charts, tables, and how it was made.

Charts are drawn by Apache ECharts and tables by Tabulator, both inside the file. Everything that comes from a
trace travels as compressed JSON and is shown as text, never as markup.
"""

from __future__ import annotations

import base64
import datetime
import gzip
import html
from collections.abc import Mapping, Sequence
from importlib import resources
from importlib.metadata import version
from typing import Any, NamedTuple

import msgspec

import pasta
from pasta.tools.html.payload import losses_of, report_payload
from pasta.tools.report import Report

_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
_STYLES = ("vendor/tabulator_simple.min.css", "report.css")
_SCRIPTS = (
    "vendor/echarts.min.js",
    "vendor/tabulator.min.js",
    "values.js",
    "tables.js",
    "network.js",
    "charts.js",
    "flame.js",
    "source.js",
    "page.js",
)
_EFFORT = 6
"""Of compression; the most takes three times as long for 4 % less."""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{styles}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the report</a>
<header><h1>{title}</h1><button id="theme" type="button">Light or dark</button></header>
<div id="layout"><nav id="contents" aria-label="Contents"></nav><main id="main" tabindex="-1">
<noscript>This report draws its tables and charts with JavaScript, which is switched off.</noscript>
</main></div>
<script type="application/octet-stream" id="payload">{payload}</script>
<script>{scripts}</script>
</body>
</html>
"""


class Page:
    """A page that is made report by report, so that none is kept once its rows are on the page."""

    def __init__(self, tools: Sequence[str]) -> None:
        """Make a page of the reports of tools, in the order in which they are to be shown."""
        self._shown: dict[str, _Shown | None] = dict.fromkeys(tools)

    def add(self, report: Report, tool: str | None = None) -> None:
        """Add the report of one of the tools, whose name it has unless another is given."""
        payload = report_payload(report, share=len(self._shown))
        self._shown[tool or report.tool] = _Shown(
            msgspec.Raw(msgspec.json.encode(payload)),
            report.tool,
            {text: report.weights.get(text, 0.0) for text in report.findings[:1]},
            report.losses,
        )

    def render(self, *, title: str = "", made: Mapping[str, str] | None = None) -> str:
        """Return the page as HTML; of several reports, the first findings of all come first, by weight.

        Args:
            title: of the page; the tools' names if left out.
            made: how the page came to be, name -> text: the command, versions, the time.
        """
        reports = [shown for shown in self._shown.values() if shown is not None]
        document = {
            "reports": [shown.payload for shown in reports],
            "losses": losses_of([(s.tool, s.losses) for s in reports]) if len(reports) > 1 else [],
            "strongest": _strongest(reports),
            "made": dict(made or {}),
        }
        packed = gzip.compress(msgspec.json.encode(document), compresslevel=_EFFORT, mtime=0)
        return _PAGE.format(
            policy=_POLICY,
            title=html.escape(title or ", ".join(shown.tool for shown in reports)),
            styles="\n".join(map(_asset, _STYLES)),
            scripts="\n".join(map(_asset, _SCRIPTS)),
            payload=base64.b64encode(packed).decode(),
        )


class _Shown(NamedTuple):
    """What a page keeps of a report: its payload as JSON, and what is gathered from all reports."""

    payload: msgspec.Raw
    tool: str
    first: Mapping[str, float]
    losses: Sequence[Mapping[str, Any]]


def _strongest(reports: Sequence[_Shown]) -> list[str]:
    """Return the first finding of each tool, those that weigh most first; of equals, as the tools come."""
    found = [(weight, f"{s.tool}: {text}") for s in reports for text, weight in s.first.items()]
    return [text for _, text in sorted(found, key=lambda each: -each[0])]


def render_page(
    reports: Sequence[Report], *, title: str = "", made: Mapping[str, str] | None = None
) -> str:
    """Return the reports of tools as one HTML page; `Page.render` has the arguments."""
    names = [f"{place}" for place, _ in enumerate(reports)]
    page = Page(names)
    for name, report in zip(names, reports, strict=True):
        page.add(report, name)
    return page.render(title=title, made=made)


def made_by(command: str) -> dict[str, str]:
    """Return how a page comes to be: the command, when, and what ran it."""
    versions = [f"{name} {version(name)}" for name in ("polars", "pyarrow")]
    return {
        "command": command,
        "time": datetime.datetime.now(datetime.UTC).isoformat(" ", timespec="seconds"),
        "versions": ", ".join([f"pasta {pasta.__version__}", *versions]),
    }


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
