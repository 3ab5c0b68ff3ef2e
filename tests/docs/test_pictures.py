"""Every page of a tool shows a picture of it, and says what it is of and how to read it."""

from __future__ import annotations

import re

import pytest

from docs.pictured import SUBJECTS
from docs.pictured.findings import PAGES, REPEATED, kept, pictured
from tests.docs.pages import ROOT

PICTURES = ROOT / "docs" / "images" / "tools"


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


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_its_picture_is_of_and_how_to_read_it(page):
    told = page_of(page).partition(f"{page}.png)")[2].split("\n\n")
    assert told[1].startswith("**In the picture**: ")
    assert told[2].startswith("**How to read it**: ")
    assert len(told[2].split()) > 30


@pytest.mark.parametrize("page", REPEATED)
def test_a_tool_says_what_it_said_when_its_picture_was_taken(page, tmp_path):
    """Where not: look at the picture and take it again with docs/pictures.py, which keeps what is said."""
    report = pictured(page, tmp_path)
    assert report is not None
    assert report.findings == kept()[page]
    if page in SUBJECTS:
        assert report.findings
        assert 2 * sum(part.rows.height > 0 for part in report.parts) >= len(report.parts)


def test_what_is_kept_of_pictures_is_of_pages():
    assert sorted(kept()) == REPEATED
