"""Which rows of tables and charts a page of many tools holds."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from pasta.tools.html import Page
from pasta.tools.html.payload import report_payload
from pasta.tools.html.thinning import LEAST_ROWS, rows_that_fit, thinned
from pasta.tools.report import ChartPart, Report, TablePart


def chart(kind: str, rows: pl.DataFrame, **roles: Any) -> ChartPart:
    log = roles.pop("log", False)
    return ChartPart(kind, "A chart", rows, roles, log=log)


def report(tool: str, *parts: TablePart | ChartPart) -> Report:
    made = Report(tool, "What it answers.", {}, "cpu", {"t": "/t"}, findings=[f"{tool} found it"])
    made.parts += parts
    return made


@pytest.mark.parametrize(
    ("shapes", "cells", "rows"),
    [
        ([(1000, 2)], 600, 300),
        ([(1000, 2), (1000, 1)], 600, 200),
        ([(1000, 1), (100, 3)], 600, 300),
        ([(100, 1), (100, 3)], 600, 200),
        ([(1000, 50)], 600, LEAST_ROWS),
        ([], 600, 600),
    ],
)
def test_parts_have_as_many_rows_and_small_ones_leave_room(shapes, cells, rows):
    assert rows_that_fit(shapes, cells) == rows
    kept = sum(min(height, rows) * width for height, width in shapes)
    assert kept <= cells or rows == LEAST_ROWS


def test_what_fits_is_left_as_it_is():
    rows = pl.DataFrame({"x": [3, 1], "y": [1, 2]})
    kept, caption = thinned(chart("scatter", rows, x="x", y="y"), 2)
    assert (kept.rows(), caption) == (rows.rows(), "")


def test_a_heat_map_is_summed_into_coarser_cells():
    rows = pl.DataFrame(
        {"x": [0, 1, 50, 99] * 100, "y": [y for y in range(100) for _ in range(4)], "value": 1}
    )
    kept, caption = thinned(chart("heatmap", rows, x="x", y="y", value="value"), 50)
    assert kept["value"].sum() == 400
    assert kept.height <= 50
    assert kept["y"].unique().sort().to_list() == [0, 20, 40, 60, 80]
    assert kept.filter(pl.col("y") == 0).rows() == [(0, 0, 40), (50, 0, 20), (99, 0, 20)]
    assert caption == "400 rows, summed into 15 cells"


def test_of_points_that_lie_on_each_other_one_stays_and_those_apart_all():
    rows = pl.DataFrame(
        {"x": [1.0] * 500 + [1000.0], "y": [1.0] * 500 + [9.0], "path": [None] * 501}
    )
    kept, caption = thinned(chart("scatter", rows, x="x", y="y", path="path", log=True), 100)
    assert kept.select("x", "y").rows() == [(1.0, 1.0), (1000.0, 9.0)]
    assert caption == "2 of 501 rows"


def test_points_that_a_line_joins_all_stay():
    rows = pl.DataFrame({"x": [1.0] * 500, "y": [1.0] * 500, "path": [None] * 498 + ["a", "a"]})
    kept, _ = thinned(chart("scatter", rows, x="x", y="y", path="path"), 100)
    assert kept["path"].to_list() == [None, "a", "a"]


def test_a_line_keeps_its_peaks_and_valleys():
    y = [5] * 1000
    y[123], y[777] = 90, -90
    rows = pl.DataFrame({"x": range(1000), "y": y, "of": ["a"] * 500 + ["b"] * 500})
    kept, caption = thinned(chart("line", rows, x="x", y="y", series="of"), 40)
    assert kept.height <= 40
    assert (90 in kept["y"], -90 in kept["y"]) == (True, True)
    assert kept["x"].is_sorted()
    assert set(kept["of"]) == {"a", "b"}
    assert caption == f"{kept.height} of 1,000 rows"


@pytest.mark.parametrize("kind", ["interval", "flame"])
def test_of_boxes_the_largest_stay_in_their_order(kind):
    rows = pl.DataFrame({"x": ["a", "b", "c", "d"], "y": [2, 9, None, 9], "value": [2, 9, None, 9]})
    roles = {"x": "x", "y": "y"} | ({"value": "value"} if kind == "interval" else {})
    kept, caption = thinned(chart(kind, rows, **roles), 2)
    assert kept["x"].to_list() == ["b", "d"]
    assert caption == "2 of 4 rows"


def test_of_parallel_lines_those_stay_that_stand_for_most():
    rows = pl.DataFrame({"x": [1, 2, 3, 4], "y": [1, 2, 3, 4], "launches": [5, 900, 1, 7]})
    part = chart("parallel", rows, columns=["x", "y"], value="launches")
    assert thinned(part, 2).rows["x"].to_list() == [2, 4]


def test_bars_are_as_many_as_the_tool_says():
    rows = pl.DataFrame({"x": list("abcd"), "y": [4, 3, 2, 1]})
    part = ChartPart("bar", "Bars", rows, {"x": "x", "y": "y"}, limit=3)
    assert thinned(part, 100).caption == "3 of 4 rows"


def test_each_tool_on_a_page_has_the_same_number_of_cells(monkeypatch):
    monkeypatch.setattr("pasta.tools.html.payload.MOST_CELLS", 400)
    rows = pl.DataFrame({"x": range(1000), "y": 1})
    shown = report("one", TablePart("t", "T", rows), chart("parallel", rows, columns=["x", "y"]))
    table, drawn = report_payload(shown, share=2)["parts"]
    assert (table["rows"], table["all_rows"]) == (50, 1000)
    assert (drawn["rows"], drawn["caption"]) == (50, "50 of 1,000 rows")
    assert report_payload(shown)["parts"][0]["rows"] == 1000


def test_a_page_shows_reports_in_its_own_order_whenever_they_came():
    page = Page(["first", "second", "third"])
    page.add(report("third"))
    page.add(report("first"))
    text = page.render()
    assert "<title>first, third</title>" in text
