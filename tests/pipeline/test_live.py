"""A live graph gives, batch after batch, what an ordinary run gives on all rows at once."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from pasta.errors import EngineError
from pasta.pipeline import live as live_module
from pasta.pipeline.config import load_config, parse_config
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.live import LiveGraph
from pasta.pipeline.run import Source, run_graph
from pasta.pipeline.wiring import build_graph
from pasta.tools.shipped import ToolFiles, shipped_tools
from pasta.trace import empty_table
from pasta.yaml_text import read_yaml

HEAD = """
version: 1
tool: example
about: An example.
inputs: {kernels: {table: kernel}, copies: {table: copy}}
"""
TOOLS = {
    "filtered": """
stages:
  long: {use: filter, from: kernels, where: dur > 2}
  ends: {use: derive, from: long, columns: {until: ts + dur}}
  devices: {use: aggregate, from: ends, by: [trace, device], measures: {n: count(*), first: min(ts), last: max(until), mean: avg(dur), ended: count(dur)}}
  told: {use: derive, from: devices, columns: {share: "n / sum(n)"}}
  sorted: {use: sort, from: told, by: n, descending: true}
report: [{table: sorted}, {table: devices}]
""",
    "two inputs": """
stages:
  work: {use: concat, from: [kernels, copies], label: what, values: [kernel, copy]}
  windows: {use: window, from: work, every: 7ns}
  sums: {use: aggregate, from: windows, by: [window, what], measures: {time: sum(dur), bytes: sum(bytes)}}
  of_kernels: {use: aggregate, from: kernels, measures: {time: sum(dur)}}
  both: {use: join, from: [sums, sums], on: [window], how: inner, columns: {other: what}}
report: [{table: both}, {facts: of_kernels}]
""",
    "other merges": """
stages:
  short: {use: select, from: kernels, columns: [name, ts, dur]}
  longest: {use: top, from: short, by: dur, n: 3}
  firsts: {use: dedupe, from: short, by: name, order: ts}
  number: {use: aggregate, from: firsts, measures: {names: count(*)}}
report: [{table: longest}, {table: firsts}, {table: number}]
""",
    "included": """
include: {frequency: kernel_frequency}
stages:
  often: {use: filter, from: frequency.shares, where: calls > 1}
report: [{table: often}]
""",
}


def wired(text: str):
    config = parse_config(read_yaml(HEAD + text))
    return config, build_graph(config, {}, ToolFiles().included)


def shipped(name: str):
    config = load_config(shipped_tools()[name])
    return config, build_graph(config, {}, ToolFiles().included)


class Rows:
    """Rows in memory that an ordinary run reads as a trace."""

    def __init__(self, tables: dict[str, pl.DataFrame]) -> None:
        self.tables = tables

    def has(self, table: str) -> bool:
        return table in self.tables

    def files(self, _table: str, _ranks: object) -> list[str]:
        return []

    def scan(self, table: str, _ranks: object) -> pl.LazyFrame:
        return pl.concat([empty_table(table), self.tables[table]], how="diagonal").lazy()


def ordinary(config, graph, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    trace: Any = Rows(tables)
    return run_graph(config, graph, [Source("r", trace)], CpuEngine())


def frame(table: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    types = empty_table(table).schema
    names = ["name", "ts", "dur", "device"] if table == "kernel" else ["bytes", "ts", "dur"]
    return pl.DataFrame(rows, schema={name: types[name] for name in names})


DURATIONS = st.none() | st.integers(0, 9)
KERNELS = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["gemm", "relu", "add"]) | st.none(),
        "ts": st.integers(0, 40),
        "dur": DURATIONS,
        "device": st.integers(0, 1),
    }
)
COPIES = st.fixed_dictionaries(
    {"bytes": st.none() | st.integers(0, 99), "ts": st.integers(0, 40), "dur": DURATIONS}
)
BATCHES = st.lists(
    st.tuples(st.just("kernel"), st.lists(KERNELS, max_size=8))
    | st.tuples(st.just("copy"), st.lists(COPIES, max_size=8)),
    max_size=6,
)


@pytest.mark.parametrize("tool", [*TOOLS, "kernel_frequency"])
@settings(max_examples=15, deadline=None)
@given(batches=BATCHES)
def test_any_split_gives_what_an_ordinary_run_gives(tool, batches):
    config, graph = wired(TOOLS[tool]) if tool in TOOLS else shipped(tool)
    live = LiveGraph(config, graph, CpuEngine())
    assert not live.waiting
    for table, rows in batches:
        live.add(table, frame(table, rows), "r")
    arrived = {
        table: frame(table, [row for name, rows in batches if name == table for row in rows])
        for table in ("kernel", "copy")
    }
    expected = ordinary(config, graph, arrived)
    found = live.tables()
    assert list(found) == list(expected)
    for name, rows in expected.items():
        assert_frame_equal(found[name], rows)


def test_what_needs_all_rows_waits_and_says_why():
    config, graph = wired(
        """
stages:
  busy: {use: busy, from: kernels, by: device}
  idle: {use: filter, from: busy, where: dur > 5}
  joined: {use: join, from: [sums, idle], on: {device: device}, how: left, columns: [dur]}
  sums: {use: aggregate, from: kernels, by: device, measures: {time: sum(dur)}}
  middle: {use: aggregate, from: kernels, measures: {middle: median(dur)}}
  long: {use: filter, from: kernels, where: dur > 3}
report: [{table: joined}, {table: sums}, {table: middle}, {table: long}, {table: copies}]
"""
    )
    live = LiveGraph(config, graph, CpuEngine())
    assert live.live_nodes == ("sums",)
    assert live.waiting == {
        "joined": "stage 'busy' (busy) needs all rows",
        "middle": "stage 'middle' (aggregate) needs all rows",
        "long": "'long' holds every row of its input",
        "copies": "'copies' holds every row of its input",
    }
    live.add("kernel", frame("kernel", [{"name": "a", "ts": 1, "dur": 4, "device": 2}]))
    assert live.tables()["sums"].rows() == [(2, 4)]


@pytest.mark.parametrize(
    ("tool", "refreshes"),
    [("kernel_frequency", ("top", "overall")), ("device_time", ()), ("summary", ())],
)
def test_shipped_tools_that_refresh(tool, refreshes):
    live = LiveGraph(*shipped(tool), CpuEngine())
    assert live.live_nodes == refreshes
    assert live.tables().keys() == set(refreshes)


def test_an_input_of_a_named_run_takes_the_rows_of_that_run_only():
    head = HEAD.replace("{table: kernel}", "{table: kernel, run: before}")
    stages = "stages: {all: {use: aggregate, from: kernels, measures: {n: count(*)}}}\n"
    config = parse_config(read_yaml(head + stages + "report: [{table: all}]"))
    live = LiveGraph(config, build_graph(config, {}, ToolFiles().included), CpuEngine())
    for run in ("before", "after", "before"):
        live.add("kernel", frame("kernel", [{"name": "a"}]), run)
    assert live.tables()["all"].item() == 2


def test_state_grows_with_groups_only_and_is_limited(monkeypatch):
    live = LiveGraph(*shipped("kernel_frequency"), CpuEngine())
    live.add("kernel", frame("kernel", [{"name": "a", "dur": 1}] * 10))
    few = live.state_bytes["by_name"]
    live.add("kernel", frame("kernel", [{"name": "a", "dur": 1}] * 1000))
    assert live.state_bytes == {"by_name": few}
    monkeypatch.setattr(live_module, "MOST_STATE_BYTES", 1000)
    many = frame("kernel", [{"name": f"kernel {i}", "dur": 1} for i in range(1000)])
    with pytest.raises(EngineError, match="the state of stage 'by_name' has grown to 0 MiB"):
        live.add("kernel", many)
    assert live.tables()["top"]["calls"].to_list() == [1010]
