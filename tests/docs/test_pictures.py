"""Every picture of a tool stands on its page."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT

PICTURES = ROOT / "docs" / "images" / "tools"


def test_pages_show_the_pictures_of_their_tools():
    shown = {
        (page.stem, name)
        for page in (ROOT / "docs" / "tools").glob("*.md")
        for name in re.findall(r"\.\./images/tools/(\w+)\.png", page.read_text(encoding="utf-8"))
    }
    taken = {picture.stem for picture in PICTURES.glob("*.png")}
    assert shown == {(name, name) for name in taken}
    assert len(taken) > 20
