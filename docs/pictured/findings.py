"""What each tool says of the subject of its picture, kept as it was said when the picture was taken.

A test compares it with what tools say now: where they differ, look at the picture and take it again, which
keeps it anew. Without a picture to take: `PYTHONPATH=. python -m docs.pictured.findings [PAGE]...`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import pasta
from docs.pictured import RECORDED, SUBJECTS, report_of
from pasta.errors import PastaError
from pasta.tools.report import Report
from pasta.tools.shipped import shipped_tools

FILE = Path(__file__).parent / "findings.json"
PAGES = sorted({tool.split("/")[0] for tool in shipped_tools()})
REPEATED = [page for page in PAGES if page not in RECORDED]
"""Those of which the same is said each time."""

TRACES = ("gpt_h100", "gpt_cpu")
COMPARED = {
    "flame_diff": {"weight": "allocated", "cut": "^symbol:(python3 train_small_gpt|gpt_cpu)"},
}
"""Tools that compare the two traces, with their parameters: here without the frames of the runs, which differ in name."""


def pictured(page: str, folder: Path) -> Report | None:
    """Return what a tool says of the subject of its picture; `None`: too little of the traces that ship with pasta.

    Args:
        page: the tool, or the folder of tools.
        folder: an empty one, for the traces.
    """
    return report_of(page, folder) if page in SUBJECTS else _of_shipped(page)


def _of_shipped(tool: str) -> Report | None:
    """Return what a tool says of the first trace that it has most to say of; `None`: of none."""
    if tool in COMPARED:
        runs = dict(zip(("before", "after"), TRACES, strict=True))
        return pasta.run(tool, runs=runs, **COMPARED[tool])
    for trace in TRACES:
        try:
            report = pasta.run(tool, trace=trace)
        except PastaError:
            continue
        if 2 * sum(part.rows.height > 0 for part in report.parts) > len(report.parts):
            return report
    return None


def kept() -> dict[str, list[str]]:
    """Return the findings by page."""
    found: dict[str, list[str]] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def keep(page: str, report: Report) -> None:
    """Keep what a picture is taken of, unless it is recorded and says something else each time."""
    if page in REPEATED:
        findings = {**kept(), page: report.findings}
        text = json.dumps(findings, indent=1, sort_keys=True, ensure_ascii=False)
        FILE.write_text(text + "\n", encoding="utf-8")


def main(pages: list[str]) -> None:
    """Keep what tools say now."""
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            report = pictured(page, Path(folder))
        if report is not None:
            keep(page, report)


if __name__ == "__main__":
    main(sys.argv[1:] or REPEATED)
