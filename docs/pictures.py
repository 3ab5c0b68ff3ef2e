"""Take the pictures of tools for their pages: `PYTHONPATH=. python docs/pictures.py [PAGE]...`; all by default.

A tool is asked about what `docs/pictured` has for its page, else about the traces that ship with pasta: the first
that has what it needs, or both where it compares runs. Needs Chromium and Pillow, and the tests' helpers; what is
recorded for the pictures of `samples`, `source` and `threads` needs root, gcc, chrt, perf and bpftrace as well.
`docs/pictured/findings.json` keeps what the pictures say.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageChops

from docs.pictured.findings import PAGES, keep, pictured
from pasta.tools.html import render_page
from pasta.tools.report import Report, TablePart

FOLDER = Path(__file__).parent / "images" / "tools"
WIDTH, HEIGHT, MORE_FOR_A_CHART = 1200, 1000, 300
COLOURS = 64
MARGIN = 24


def take(report: Report, picture: Path) -> None:
    """Write the top of a report's page, as a browser shows it, charts first, in few colours."""
    report.parts.sort(key=lambda part: isinstance(part, TablePart))
    charts = sum(not isinstance(part, TablePart) for part in report.parts)
    height = HEIGHT + MORE_FOR_A_CHART * max(0, charts - 1)
    with tempfile.TemporaryDirectory() as folder:
        page, shot = Path(folder, "page.html"), Path(folder, "shot.png")
        page.write_text(render_page([report], title=report.tool), encoding="utf-8")
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={folder}/profile", "--virtual-time-budget=600000"]
        command += [f"--window-size={WIDTH},{height}", f"--screenshot={shot}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)  # noqa: S603 - our own page
        picture.parent.mkdir(parents=True, exist_ok=True)
        shown = without_empty_end(Image.open(shot).convert("RGB"))
        shown.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=1).save(picture, optimize=True)


def without_empty_end(image: Image.Image) -> Image.Image:
    """Cut off what is of the ground's colour below the last thing on a page."""
    ground = Image.new("RGB", image.size, image.getpixel((0, image.height - 1)))
    used = ImageChops.difference(image, ground).getbbox()
    last = used[3] if used else image.height
    return image.crop((0, 0, image.width, min(last + MARGIN, image.height)))


def main(pages: list[str]) -> None:
    """Take the pictures of some pages."""
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            report = pictured(page, Path(folder))
        if report is None:
            print(f"{page}: says too little of the shipped traces")
            continue
        take(report, FOLDER / f"{page}.png")
        keep(page, report)
        print(page)


if __name__ == "__main__":
    main(sys.argv[1:] or PAGES)
