"""Every page of a tool shows a picture of it, and says how to read what is not of the shipped traces."""

from __future__ import annotations

import re

import pytest

from docs.pictured import RECORDED, SUBJECTS, report_of
from pasta.tools.shipped import shipped_tools
from tests.docs.pages import ROOT

PICTURES = ROOT / "docs" / "images" / "tools"
PAGES = sorted({tool.split("/")[0] for tool in shipped_tools()})


def page_of(tool: str) -> str:
    return (ROOT / "docs" / "tools" / f"{tool}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_the_picture_of_its_tool_and_no_other(page):
    assert re.findall(r"[.][.]/images/tools/(\w+)[.]png", page_of(page)) == [page]
    assert (PICTURES / f"{page}.png").read_bytes().startswith(b"\x89PNG")


def test_every_picture_is_small_and_of_a_page():
    pictures = list(PICTURES.glob("*.png"))
    assert sorted(picture.stem for picture in pictures) == PAGES
    assert max(picture.stat().st_size for picture in pictures) < 100_000


@pytest.mark.parametrize("page", SUBJECTS)
def test_a_page_says_what_its_picture_is_of_and_how_to_read_it(page):
    told = page_of(page).partition(f"{page}.png)")[2].split("\n\n")
    assert told[1].startswith("**In the picture**: ")
    assert told[2].startswith("**How to read it**: ")


@pytest.mark.parametrize("page", [page for page in SUBJECTS if page not in RECORDED])
def test_what_is_made_for_a_picture_gives_its_tool_something_to_say(page, tmp_path):
    report = report_of(page, tmp_path)
    assert report.findings
    assert 2 * sum(part.rows.height > 0 for part in report.parts) >= len(report.parts)
