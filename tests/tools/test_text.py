"""Text reports fit the terminal and lose no number."""

from __future__ import annotations

import io

import polars as pl
import pytest
from rich.console import Console

from pasta.tools.report import ChartPart, Report, TablePart
from pasta.tools.text import print_report


def text_of(part, width):
    stream = io.StringIO()
    report = Report("t", "About.", {}, "cpu", {}, parts=[part])
    print_report(report, Console(file=stream, width=width, force_terminal=False))
    return stream.getvalue()


WIDE = pl.DataFrame({f"number_{i}_of_columns": [10**i] * 6 for i in range(12)})


@pytest.mark.parametrize("width", [40, 80, 120, 300])
@pytest.mark.parametrize("rows", [1, 6])
def test_lines_fit_and_numbers_are_whole(width, rows):
    text = text_of(TablePart("t", "Title", WIDE.head(rows)), width)
    assert max(map(len, text.splitlines())) <= max(width, 60)
    shown = [line for line in text.splitlines() if "│" in line]
    assert shown
    if width == 300 or rows == 1:
        assert "100,000,000,000" in text
    else:
        assert "too narrow for" in text


def test_long_names_give_way_to_numbers():
    rows = pl.DataFrame({"name": ["void " + "n" * 300 + "END"] * 9, "dur": [123] * 9})
    text = text_of(TablePart("t", "Title", rows), 60)
    assert "123 ns" in text
    assert "END" in text


def test_empty_tables_say_so():
    assert "Title: no rows" in text_of(TablePart("t", "Title", WIDE.head(0)), 80)


def test_lists_are_shown_with_commas():
    rows = pl.DataFrame({"name": ["a", "b"] * 3, "cores": [[0, 1], []] * 3, "links": [["x"]] * 6})
    assert "0, 1" in text_of(TablePart("t", "Title", rows), 80)


def test_rows_beyond_the_limit_are_counted():
    assert "2 of 6 rows" in text_of(TablePart("t", "Title", WIDE.select(pl.nth(0)), limit=2), 80)


def test_charts_scale_to_the_largest():
    rows = pl.DataFrame({"x": [0, 1, 2], "y": [0, 50, 100]})
    line = text_of(ChartPart("line", "Line", rows, {"x": "x", "y": "y"}), 80)
    assert "▁" in line
    assert "█" in line
    bars = text_of(ChartPart("bar", "Bars", rows, {"x": "x", "y": "y"}), 80)
    assert bars.count("█") == 30 + 15


def test_bars_of_one_x_are_told_apart_and_the_many_are_counted():
    rows = pl.DataFrame({"x": ["a", "a"], "y": [1, 2], "what": ["on", "off"]})
    roles = {"x": "x", "y": "y", "series": "what"}
    text = text_of(ChartPart("bar", "Bars", rows, roles), 80)
    assert "a, on" in text
    assert "a, off" in text
    apart = text_of(ChartPart("bar", "Bars", rows.with_columns(x=pl.Series(["a", "b"])), roles), 80)
    assert "on" not in apart
    many = pl.DataFrame({"x": range(300), "y": range(300)})
    text = text_of(ChartPart("bar", "Bars", many, {"x": "x", "y": "y"}, limit=400), 80)
    assert "40 of 300 rows" in text
