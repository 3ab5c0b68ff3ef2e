"""Take the pictures of tools for their pages: `python docs/pictures.py [TOOL]...`; all by default.

Each tool is asked about the traces that ship with pasta, the first that has what it needs, or about
both where it compares runs. Needs Chromium and Pillow.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

import pasta
from pasta.errors import PastaError
from pasta.tools.html import render_page
from pasta.tools.report import Report, TablePart
from pasta.tools.shipped import shipped_tools

FOLDER = Path(__file__).parent / "images" / "tools"
TRACES = ("gpt_h100", "gpt_cpu")
SIZE = (1100, 1000)
COLOURS = 64
COMPARED = {
    "flame_diff": {"weight": "allocated", "cut": "^symbol:(python3 train_small_gpt|gpt_cpu)"},
}
"""Tools that compare the two traces, with their parameters: here without the frames of the runs, which differ in name."""


def report_of(tool: str) -> Report | None:
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


def take(report: Report, picture: Path) -> None:
    """Write the top of a report's page, as a browser shows it, charts first, in few colours."""
    report.parts.sort(key=lambda part: isinstance(part, TablePart))
    with tempfile.TemporaryDirectory() as folder:
        page, shot = Path(folder, "page.html"), Path(folder, "shot.png")
        page.write_text(render_page([report], title=report.tool), encoding="utf-8")
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={folder}/profile", "--virtual-time-budget=15000"]
        command += [f"--window-size={SIZE[0]},{SIZE[1]}", f"--screenshot={shot}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)  # noqa: S603 - our own page
        picture.parent.mkdir(parents=True, exist_ok=True)
        Image.open(shot).convert("RGB").quantize(COLOURS).save(picture, optimize=True)


def main(tools: list[str]) -> None:
    """Take the pictures of some tools."""
    for tool in tools:
        report = report_of(tool)
        if report is None:
            print(f"{tool}: says too little of the shipped traces")
            continue
        take(report, FOLDER / f"{tool}.png")
        print(tool)


if __name__ == "__main__":
    main(sys.argv[1:] or list(shipped_tools()))
