"""Mergeable array stages of the cpu engine run shard after shard on large traces, and change no result."""

from __future__ import annotations

import pytest
from polars.testing import assert_frame_equal

from pasta import api
from pasta.pipeline.config import parse_config
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.engines.shard_tasks import Work
from pasta.pipeline.engines.state_tree import FAN_IN, StateTree
from pasta.pipeline.run import Source, run_graph, wanted_nodes
from pasta.pipeline.sharing import SharedRows
from pasta.pipeline.wiring import build_graph
from pasta.yaml_text import read_yaml
from tests.pipeline.engines.ranks import trace_of_ranks

ROWS = 40
HEAD = "{version: 1, tool: t, about: A., inputs: {kernels: {table: kernel}, copies: {table: copy, optional: true}}, report: [{table: r}], stages: "
COUNTS = "c: {use: value_counts, from: kernels, by: [trace, name], value: dur}"


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> list[Source]:
    return [Source("s", trace_of_ranks(tmp_path_factory.mktemp("cpu") / "ranks"))]


@pytest.fixture
def shards(monkeypatch) -> list[int]:
    """The numbers of the shards that ran."""
    ran: list[int] = []
    run = Work.run
    monkeypatch.setattr(Work, "run", lambda *given: ran.append(given[2]) or run(*given))
    return ran


def graph_of(stages: str):
    config = parse_config(read_yaml(HEAD + stages + "}"))
    return config, build_graph(config, {}, pytest.fail)


@pytest.mark.parametrize("tool", ["variability", "variability_outliers", "variability_causes"])
def test_shards_change_nothing(sources, shards, tool):
    config, graph = api.check(tool)
    expected = run_graph(config, graph, sources, CpuEngine(), outputs=True)
    assert shards == []
    found = run_graph(config, graph, sources, CpuEngine(part_rows=ROWS), outputs=True)
    assert len(shards) > FAN_IN
    assert list(found) == list(expected)
    for name, rows in expected.items():
        assert_frame_equal(found[name], rows, rel_tol=1e-9, abs_tol=0)


@pytest.mark.parametrize(
    "stages",
    [
        f"{{{COUNTS}, r: {{use: top, from: c, by: count, n: 5}}}}",
        "{long: {use: filter, from: kernels, where: dur > 2000}, r: {use: value_counts, from: long, by: [name], value: dur}}",
        "{none: {use: filter, from: kernels, where: dur < 0}, r: {use: value_counts, from: none, by: [name], value: dur}}",
        "{both: {use: concat, from: [kernels, copies]}, r: {use: value_counts, from: both, by: [rank], value: dur}}",
        f"{{{COUNTS}, p: {{use: busy, from: kernels, by: [trace, rank]}}, s: {{use: aggregate, from: p, by: [trace], measures: {{count: count(*)}}}}, r: {{use: concat, from: [c, s]}}}}",
    ],
)  # fmt: skip
def test_what_feeds_a_stage_and_what_follows_it_is_the_same(sources, shards, stages):
    config, graph = graph_of(stages)
    expected = run_graph(config, graph, sources, CpuEngine())["r"]
    found = run_graph(config, graph, sources, CpuEngine(part_rows=ROWS))["r"]
    assert shards
    assert_frame_equal(found, expected)


@pytest.mark.parametrize(
    "stages",
    [
        "{r: {use: aggregate, from: kernels, by: [name], measures: {time: sum(dur)}}}",
        "{s: {use: sort, from: kernels, by: dur}, r: {use: value_counts, from: s, by: [name], value: dur}}",
        f"{{{COUNTS}, r: {{use: filter, from: kernels, where: dur > 0}}}}",
    ],
)
def test_what_streams_or_needs_all_rows_or_is_not_asked_for_is_not_cut(sources, shards, stages):
    config, graph = graph_of(stages)
    run_graph(config, graph, sources, CpuEngine(part_rows=ROWS))
    assert shards == []


def test_what_another_tool_has_counted_is_not_counted_again(sources, shards):
    tools = {
        name: graph_of(f"{{{COUNTS}, r: {{use: top, from: c, by: {name}, n: 5}}}}")
        for name in ("count", "dur")
    }
    alone = {
        name: run_graph(*tool, sources, CpuEngine(part_rows=ROWS))["r"]
        for name, tool in tools.items()
    }
    once = len(shards) // 2
    shared = SharedRows({n: (g, wanted_nodes(c, outputs=False)) for n, (c, g) in tools.items()})
    for name in shared.order:
        engine = CpuEngine(part_rows=ROWS)
        found = run_graph(*tools[name], sources, engine, shared=shared.of(name))
        assert_frame_equal(found["r"], alone[name])
    assert len(shards) == 3 * once


def test_the_tree_depends_on_the_order_alone_and_stays_small():
    tree = StateTree(lambda states: f"({' '.join(states)})")
    assert tree.root() is None
    for place in range(FAN_IN**2 + FAN_IN + 2):
        tree.add(str(place))
        assert sum(map(len, tree._levels)) <= 2 * FAN_IN
    root = tree.root()
    assert root is not None
    assert root.count("(") == 1 + 1 + FAN_IN + 1
    assert [int(word) for word in root.replace("(", "").replace(")", "").split()] == [*range(place + 1)]  # fmt: skip
