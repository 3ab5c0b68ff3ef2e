"""Tools and the parts that they include are short files, and every part serves a tool."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from statistics import median

import polars as pl
import pytest

from pasta import api
from pasta.pipeline.config import load_config
from pasta.tools.shipped import config_folder, shipped_tools
from pasta.tools.units import unit_of

MOST_LINES = 40
MEDIAN_LINES = 25
"""Of the tools, without blank lines and comments."""
DECIDING = {
    "launch_memory": ("most", ["bytes", "unique_bytes", "dur", "bytes_per_second"]),
    "paged_uses": ("largest", ["bytes", "size_bytes"]),
    "peak_objects": ("largest", ["bytes", "idle_ns"]),
    "roofline": ("most", ["roof_share", "time_ns"]),
}
"""Tool -> its widest table, and what decides there."""
_PLURAL = re.compile(r"\{(\w+)\} (?!as |is )(\w+s)\b(?!,| and )")
"""Not a list, as `{n} kernels and copies`."""
FILES = sorted(config_folder().rglob("*.yaml"))
PARTS = [path for path in FILES if path.parent.name == "parts"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_are_short(path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MOST_LINES


def test_tools_are_shorter_still():
    assert median(lines_of(path) for path in FILES if path not in PARTS) <= MEDIAN_LINES


@pytest.mark.parametrize("tool", shipped_tools())
def test_findings_read_well_of_one(tool):
    """A number with a noun in the plural says what it is of one: `{n:call|calls}`."""
    config, graph = api.check(tool)
    plurals = [
        (column, noun)
        for options in (item.options for item in config.report if "finding" in item.options)
        for column, noun in _PLURAL.findall(options["finding"])
        if graph.schemas[options["from"]].get(column, pl.String).is_integer()
        and unit_of(column) is None
    ]
    assert plurals == []


@pytest.mark.parametrize("tool", DECIDING)
def test_what_decides_stands_beside_the_name_and_what_identifies_stands_last(tool):
    table, deciding = DECIDING[tool]
    [columns] = [
        item.options["columns"]
        for item in load_config(shipped_tools()[tool]).report
        if item.options.get("table") == table
    ]
    first = columns.index(deciding[0])
    assert first <= 2
    assert columns[first : first + len(deciding)] == deciding
    identifying = {"trace", "rank", "pid", "device", "launch_id", "object_id", "address", "ts"} & {
        *columns
    }
    assert {*columns[-len(identifying) :]} == identifying


def test_a_copy_of_a_tool_in_a_folder_finds_its_parts(tmp_path):
    copied = tmp_path / "a11.yaml"
    shutil.copy(shipped_tools()["xsp/a11"], copied)
    assert api.check(str(copied))[1].nodes.keys() == api.check("xsp/a11")[1].nodes.keys()


def lines_of(path: Path) -> int:
    """Return how many lines of a file are neither blank nor comments."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return sum(1 for line in lines if line and not line.startswith("#"))


def included_by(path: Path) -> set[Path]:
    folder, shipped = path.parent, shipped_tools()
    names = [included.tool for included in load_config(path).include.values()]
    beside = {folder / name for name in names} | {config_folder() / name for name in names}
    return {shipped[name] for name in names if name in shipped} | beside


@pytest.mark.parametrize("part", PARTS, ids=lambda path: path.stem)
def test_parts_are_no_tools_but_serve_one(part):
    config = load_config(part)
    assert config.name == part.stem
    assert config.report == ()
    assert part.stem not in shipped_tools()
    assert any(part in included_by(path) for path in FILES)
    api.check(str(part))
