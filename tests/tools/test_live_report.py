"""What a live view says of a recording and of a tool's report so far."""

from __future__ import annotations

import polars as pl
import pytest
from rich.console import Console

from pasta import api
from pasta.pipeline.config import parse_config
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.live import LiveGraph
from pasta.pipeline.wiring import build_graph
from pasta.tools.live_report import Status, live_report, view
from pasta.tools.shipped import ToolFiles
from pasta.yaml_text import read_yaml

BEFORE = Status(10.0, {"kernel": 100, "span": 5}, 1 << 20, {}, 0.5, 2)
NOW = Status(12.0, {"kernel": 4100, "span": 5, "memory": 20}, 3 << 20, {}, 0.256, 1)


def live_graph(tool: str) -> LiveGraph:
    return LiveGraph(*api.check(tool), CpuEngine())


def fed(names: list[str]) -> LiveGraph:
    live = live_graph("kernel_frequency")
    rows = pl.DataFrame(
        {"name": names, "dur": [7] * len(names)}, schema_overrides={"dur": pl.Int64}
    )
    live.add("kernel", rows)
    return live


def shown(*arguments, width: int = 100, lines: int = 8, **options) -> list[str]:
    console = Console(width=width, force_terminal=False, color_system=None)
    with console.capture() as captured:
        console.print(view(*arguments, (width, lines), **options))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_rates_and_losses():
    rates, losses = shown((BEFORE, NOW), None)
    assert rates == (
        "pasta 12 s  1 process  shared memory 26 %  1.00 MiB/s written  kernel 2,000/s  memory 10/s"
    )
    assert losses == "nothing lost"


def test_losses_are_told_by_reason_most_first():
    lost = Status(1.0, {}, 0, {"ring full": 3, "late": 1200, "none": 0}, 1.0, 0)
    assert shown((lost, lost), None)[1] == "lost: 1,200 late; 3 ring full"
    assert shown((BEFORE, NOW), None, left_out=4500)[1] == (
        "nothing lost (this view leaves out 4,500 rows)"
    )


def test_the_top_rows_of_the_first_table_fit_the_room():
    live = fed(["gemm"] * 3 + ["relu"] * 2 + ["add", "mul"])
    lines = shown((BEFORE, NOW), live_report(live, "r"), lines=6)
    assert lines[2] == "• gemm makes 3 calls, 42.9 % of all, and takes 42.9 % of kernel time"
    assert [line.split()[0] for line in lines[3:]] == ["name", "gemm", "relu"]
    assert lines[4].split()[1:3] == ["3", "42.9"]


def test_names_neither_drive_the_terminal_nor_are_markup():
    live = fed(["\x1b[2J[red]evil\r\n"])
    text = "\n".join(shown((BEFORE, NOW), live_report(live, "r")))
    assert "\x1b" not in text
    assert "\r" not in text
    assert "[red]evil" in text
    reasons = Status(1.0, {}, 0, {"\x1b[H[bold]": 1}, 0.0, 0)
    assert shown((reasons, reasons), None)[1] == "lost: 1 \ufffd[H[bold]"


def test_a_report_so_far_is_the_ordinary_report(make_trace):
    rows = [{"name": name, "dur": 5, "ts": 0} for name in ("a", "b", "a")]
    expected = api.run("kernel_frequency", make_trace(kernel=rows))
    live = live_graph("kernel_frequency")
    for row in rows:
        live.add("kernel", pl.DataFrame([row]), "t")
    found = live_report(live, "t")
    assert found.findings == expected.findings
    assert found.facts == expected.facts
    assert found.tables["top"].equals(expected.tables["top"])


def test_what_cannot_refresh_is_told():
    report = live_report(live_graph("device_time"), "r")
    assert report.tables == {}
    assert report.findings == []
    line = shown((BEFORE, NOW), report)[2]
    assert line == "device_time: at the end: least_busy (stage 'compute' (join) needs all rows)"


def test_items_that_refresh_are_shown_beside_those_that_wait():
    text = """
version: 1
tool: both
about: Both.
inputs: {kernels: {table: kernel}}
stages:
  number: {use: aggregate, from: kernels, measures: {kernels: count(*)}}
  middle: {use: aggregate, from: kernels, measures: {middle_ns: median(dur)}}
report: [{finding: "half last {middle_ns}", from: middle}, {facts: number}]
"""
    config = parse_config(read_yaml(text))
    live = LiveGraph(config, build_graph(config, {}, ToolFiles().included), CpuEngine())
    live.add("kernel", pl.DataFrame({"name": ["a", "b"]}))
    report = live_report(live, "r")
    assert (report.findings, report.facts) == ([], {"kernels": 2})
    assert report.notes == ["at the end: middle (stage 'middle' (aggregate) needs all rows)"]
    assert shown((BEFORE, NOW), report)[2] == "kernels 2"


@pytest.mark.parametrize("width", [10, 40])
def test_every_line_fits_the_width(width):
    report = live_report(fed(["a long name of a kernel " * 9, "b"]), "r")
    assert all(len(line) <= width for line in shown((BEFORE, NOW), report, width=width))
