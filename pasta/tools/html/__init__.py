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
    "charts.js",
    "page.js",
)
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


def render_page(
    reports: Sequence[Report], *, title: str = "", made: Mapping[str, str] | None = None
) -> str:
    """Return the reports of tools as one HTML page.

    Args:
        reports: in the order in which they are shown; of several, the findings of all come first.
        title: of the page; the tool's name if left out.
        made: how the page came to be, name -> text: the command, versions, the time.
    """
    document = {
        "reports": [report_payload(report, losses=len(reports) == 1) for report in reports],
        "losses": losses_of(reports) if len(reports) > 1 else [],
        "strongest": [f"{report.tool}: {report.findings[0]}" for report in reports if report.findings],
        "made": dict(made or {}),
    }  # fmt: skip
    packed = gzip.compress(msgspec.json.encode(document), mtime=0)
    return _PAGE.format(
        policy=_POLICY,
        title=html.escape(title or ", ".join(report.tool for report in reports)),
        styles="\n".join(map(_asset, _STYLES)),
        scripts="\n".join(map(_asset, _SCRIPTS)),
        payload=base64.b64encode(packed).decode(),
    )


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
