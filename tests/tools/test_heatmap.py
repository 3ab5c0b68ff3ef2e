"""Heat maps as text and as JSON."""

from __future__ import annotations

import io
import json

import polars as pl
from rich.console import Console

from pasta.tools.heatmap import MOST_ROWS
from pasta.tools.json import render_json
from pasta.tools.report import ChartPart, Report
from pasta.tools.text import print_report


def report(rows):
    roles = {"x": "window", "y": "address", "value": "accesses"}
    part = ChartPart("heatmap", "Heat", rows, roles)
    return Report("t", "About.", {}, "cpu", {}, parts=[part])


def lines(rows, width=80):
    stream = io.StringIO()
    print_report(report(rows), Console(file=stream, width=width, force_terminal=False))
    text = stream.getvalue().splitlines()
    return text[text.index("Heat") + 1 :]


def cells(*rows):
    return pl.DataFrame(rows, schema=["window", "address", "accesses"], orient="row")


def test_a_shade_for_each_cell():
    """Rows are addresses in order; what does not occur between them takes no room."""
    found = lines(cells((0, 0x20, 1000), (1, 0x20, 1), (3, 0x20, 30), (1, 0xF00000, 1000)))
    assert found[:2] == ["    0x20 █░ ▒", "0xf00000  █"]
    assert found[2] == "░ from 1, █ up to 1,000 accesses, logarithmic; window from left to right"


def test_many_cells_are_summed():
    """2,000 windows and 48 addresses of one access each fit a page; no access is lost."""
    rows = cells(*((window, address, 1) for window in range(2_000) for address in range(48)))
    found = lines(rows, width=60)
    assert len([line for line in found if line.startswith(("0x", " 0x"))]) == MOST_ROWS
    assert max(map(len, found[:MOST_ROWS])) <= 60
    assert set("".join(line.split()[-1] for line in found[:MOST_ROWS])) <= set("░▒▓█")


def test_empty_maps_say_so():
    assert lines(cells((0, 1, 0)))[0] == "no rows"


def test_json_has_the_cells():
    chart = json.loads(render_json(report(cells((0, 0x20, 7), (1, 0x20, 8)))))["charts"][0]
    assert chart == {
        "kind": "heatmap",
        "title": "Heat",
        "roles": {"x": "window", "y": "address", "value": "accesses"},
        "columns": {"window": [0, 1], "address": [32, 32], "accesses": [7, 8]},
    }
