"""Flame graphs on pages: zoomed, searched, walked by keys, with names as text and a hundred thousand frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pasta.tools.html import render_page
from pasta.tools.report import ChartPart, Report
from tests.tools.test_html import HOSTILE, in_browser, needs_browser

ROLES = {"x": "name", "y": "weight", "node": "node_id", "parent": "parent_id", "cold": "cold_share", "unit": "unit"}  # fmt: skip
NODES = {
    "node_id": [1, 2, 3, 4, 5],
    "parent_id": [0, 1, 1, 2, 0],
    "name": ["main", "a; b", HOSTILE, "inner", "other"],
    "weight": [80.0, 50.0, 30.0, 20.0, 20.0],
    "cold_share": [0.5, 0.0, 1.0, None, 0.0],
    "unit": ["time"] * 5,
}
HELP = """
  const graph = () => document.querySelector(".flame canvas");
  const click = (x, row) => graph().dispatchEvent(new MouseEvent("click", { bubbles: true, clientX: graph().getBoundingClientRect().x + x, clientY: graph().getBoundingClientRect().y + row * 18 + 9 }));
  const press = (key) => graph().dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const find = (text) => { const input = document.querySelector("figure input"); input.value = text; input.dispatchEvent(new Event("input")); return document.querySelector("figure .count").textContent; };
  const crumbs = () => [...document.querySelectorAll(".crumbs button")].map((crumb) => crumb.title);
  const told = () => document.querySelector(".told").textContent;
  const width = graph().clientWidth;
  const pixel = (x, row) => [...graph().getContext("2d").getImageData(x, row * 18 + 3, 1, 1).data];
"""


def page_of(rows: pl.DataFrame, roles: dict[str, Any] = ROLES) -> str:
    made = Report("flame", "What it answers.", {}, "cpu", {"t": "/t"})
    made.parts.append(ChartPart("flame", "Weights", rows, roles))
    return render_page([made])


@needs_browser
def test_clicks_zoom_and_crumbs_lead_back(tmp_path: Path) -> None:
    script = f"""{HELP}
      result.first = crumbs();
      click(width * 0.1, 2);
      result.zoomed = [crumbs(), told()];
      click(width * 0.9, 3);
      result.beside = crumbs();
      document.querySelectorAll(".crumbs button")[1].click();
      result.back = crumbs();
      [...document.querySelectorAll("figure button")].find((button) => button.textContent === "Reset").click();
      result.reset = [crumbs(), told()];
      result.images = document.images.length;
      result.title = document.title;
    """
    result = in_browser(page_of(pl.DataFrame(NODES)), script, tmp_path)
    assert result["first"] == ["all"]
    assert result["zoomed"] == [["all", "main", "a; b"], "a; b: 50 ns, 50.0 % of all"]
    assert result["beside"] == ["all", "main", "a; b"], "what is right of the only callee is empty"
    assert result["back"] == ["all", "main"]
    assert result["reset"] == [["all"], "all: 100 ns, 100.0 % of all"]
    assert (result["images"], result["title"]) == (0, "flame")


@needs_browser
def test_search_counts_weight_once_and_keys_walk(tmp_path: Path) -> None:
    script = f"""{HELP}
      result.found = ["a; b|inner", "^main$", "onerror", "(", ""].map(find);
      const walk = (...keys) => keys.map((key) => {{ press(key); return told().split(":")[0]; }});
      result.walked = walk("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp", "ArrowUp", "ArrowRight", "ArrowLeft", "Enter");
      result.crumbs = crumbs();
      press("Escape");
      result.after = crumbs();
    """
    result = in_browser(page_of(pl.DataFrame(NODES)), script, tmp_path)
    assert result["found"] == ["2 frames, 50.0 % of all", "1 frames, 80.0 % of all", "1 frames, 30.0 % of all", "no regular expression", ""]  # fmt: skip
    assert result["walked"] == ["main", "a; b", "inner", "a; b", "main", "other", "main", "main"]
    assert result["crumbs"] == ["all", "main"]
    assert result["after"] == ["all"]


@needs_browser
@pytest.mark.parametrize("role", ["cold", "change"])
def test_colours_tell_cold_from_hot_and_more_from_less(tmp_path: Path, role: str) -> None:
    values = [0.5, 0.0, 1.0, None, 0.0] if role == "cold" else [0.0, 0.9, -0.9, 0.1, 0.0]
    rows = pl.DataFrame(NODES | {"told_share": values})
    roles = {name: column for name, column in ROLES.items() if name != "cold"}
    script = f"""{HELP}
      const colours = () => [pixel(width * 0.1, 2), pixel(width * 0.6, 2), pixel(width * 0.9, 1)];
      result.light = colours();
      document.getElementById("theme").click();
      result.dark = colours();
      result.legend = [...document.querySelectorAll("figcaption")].map((caption) => caption.textContent);
    """
    result = in_browser(page_of(rows, {**roles, role: "told_share"}), script, tmp_path)
    warm, cold, same = result["light"]
    assert warm[0] > warm[2]
    assert cold[2] > cold[0]
    assert (abs(same[0] - same[2]) < 10) == (role == "change")
    assert result["dark"] == result["light"]
    assert any(("off the CPU" if role == "cold" else "before") in text for text in result["legend"])


@needs_browser
def test_siblings_stand_in_the_order_of_their_ids(tmp_path: Path) -> None:
    """So that those of a graph in time stand as they came, though rows come by weight."""
    rows = pl.DataFrame(NODES | {"name": ["main", "late", "early", "inner", "first"], "node_id": [2, 4, 3, 5, 1], "parent_id": [0, 2, 2, 4, 0]})  # fmt: skip
    script = f"""{HELP}
      const at = (x, row) => {{ click(width * x, row); const name = told().split(":")[0]; press("Escape"); return name; }};
      result.row = [at(0.1, 1), at(0.9, 1), at(0.3, 2), at(0.9, 2)];
    """
    result = in_browser(page_of(rows), script, tmp_path)
    assert result["row"] == ["first", "main", "early", "late"]


@needs_browser
def test_a_hundred_thousand_frames_and_what_is_left_out(tmp_path: Path) -> None:
    count = 120_000
    rows = pl.DataFrame(
        {
            "node_id": range(1, count + 1),
            "parent_id": [0, *((node - 2) // 10 + 1 for node in range(2, count + 1))],
            "name": [f"function {node % 977}" for node in range(1, count + 1)],
        }
    )
    weights = [1.0] * count
    for node in range(count - 1, 0, -1):
        weights[(node - 1) // 10] += weights[node]
    rows = rows.with_columns(weight=pl.Series(weights), cold_share=0.2, unit=pl.lit("bytes"))
    script = f"""{HELP}
      result.whole = told();
      result.found = find("function 5$");
      press("ArrowDown"); press("ArrowDown"); press("Enter");
      result.depth = crumbs().length;
      result.legend = [...document.querySelectorAll("figcaption")].map((caption) => caption.textContent);
    """
    page = page_of(rows)
    result = in_browser(page, script, tmp_path)
    assert len(page) < 5_000_000
    assert result["whole"].startswith("all: 117.19 KiB")
    assert result["found"].startswith("103 frames, ")
    assert result["depth"] == 3
    assert "the widest 100,000 of 120,000 frames; each of the others has at most 0.00083 % of all" in result["legend"]  # fmt: skip
