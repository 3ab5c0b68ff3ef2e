"""Shards of rows of the largest input, each with all rows of the others, change no result."""

from __future__ import annotations

import pickle

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pasta import api
from pasta.errors import EngineError
from pasta.pipeline.config import parse_config
from pasta.pipeline.engines import cpu
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.engines.local_run import run_in_turn, shards_at_once
from pasta.pipeline.engines.shard_tasks import Work, made_before
from pasta.pipeline.placement import place
from pasta.pipeline.run import Source, collect_wanted, input_tables, run_graph, wanted_nodes
from pasta.pipeline.shards import ShardedInputs
from pasta.pipeline.sharing import SharedRows
from pasta.pipeline.wiring import build_graph
from pasta.tools.shipped import shipped_tools
from pasta.yaml_text import read_yaml
from tests.pipeline.engines.ranks import ROW_GROUP, trace_of_one


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Source:
    return Source("one", trace_of_one(tmp_path_factory.mktemp("given")))


def given_of(tool, source):
    """Return a tool, its graph, what is wanted, its inputs, and where its nodes run."""
    config, graph = api.check(tool)
    if any(not spec.optional and not source.trace.has(spec.table) for spec in graph.inputs.values()):  # fmt: skip
        pytest.skip("the trace lacks a table")
    wanted = wanted_nodes(config, outputs=True)
    if not graph.inputs:
        pytest.skip("reads no table")
    inputs = ShardedInputs(graph, [source], graph.inputs)
    most = max(inputs.rows([name]) for name in graph.inputs)
    placement = place(graph, wanted, by_rank=False, few=inputs.few(most - 1))
    return config, graph, wanted, inputs, placement


@pytest.mark.parametrize("tool", list(shipped_tools()))
def test_a_shipped_tool_gives_what_it_gives_at_once(source, tool):
    config, graph, wanted, inputs, placement = given_of(tool, source)
    if not placement.given:
        pytest.skip("looks nothing up before it groups")
    work = Work(graph, placement, given=made_before(graph, inputs, placement))
    work = pickle.loads(pickle.dumps(work))
    shards = inputs.by_rows(ROW_GROUP, placement.before)
    tables = input_tables(config, graph, [source])
    tables |= work.results(*run_in_turn(work, shards))
    found = collect_wanted(graph, tables, wanted, CpuEngine().collect)[1]
    for name, rows in run_graph(config, graph, [source], CpuEngine(), outputs=True).items():
        assert_frame_equal(found[name], rows, rel_tol=1e-9)


def test_tools_of_raw_accesses_look_few_rows_up(source):
    """So that the test above does not pass by skipping."""
    *_, placement = given_of("touch_from_access", source)
    assert placement.given == ("of.divided",)
    assert "of.counted" in placement.combined
    assert given_of("reuse", source)[-1].given


STATES = {
    "touch_from_access": "of.counted",
    "reuse": "of.uses",
    "sector_heatmap": "of.of_warps",
    "block_balance": "requests",
}


@pytest.fixture
def states(monkeypatch):
    """The nodes of which each shard left a state, where more than a few rows are very many."""
    monkeypatch.setattr(cpu, "MANY_ROWS", 5000)
    monkeypatch.setattr(cpu, "GROUPED_ROWS", 5000)
    ran = []
    run = Work.run
    monkeypatch.setattr(Work, "run", lambda *given: ran.append(given[0].combined) or run(*given))
    return ran


@pytest.mark.parametrize("tool", STATES)
def test_very_many_rows_are_grouped_part_after_part(source, states, monkeypatch, tool):
    config, graph = api.check(tool)
    found = run_graph(config, graph, [source], CpuEngine(), outputs=True)
    assert len(states) > 2
    assert all(STATES[tool] in names for names in states)
    states.clear()
    monkeypatch.setattr(cpu, "MANY_ROWS", 1 << 40)
    for name, rows in run_graph(config, graph, [source], CpuEngine(), outputs=True).items():
        assert_frame_equal(found[name], rows, rel_tol=1e-9)
    assert not states


def test_what_is_looked_up_may_have_run_for_another_tool(source, states):
    tools = {name: api.check(name) for name in ("reuse", "reuse_pairs", "touch_from_access")}
    alone = {}
    for name, tool in tools.items():
        alone[name] = run_graph(*tool, [source], CpuEngine())
    of_each = [names for names in states if "of.uses" in names]
    states.clear()
    shared = SharedRows({n: (g, wanted_nodes(c, outputs=False)) for n, (c, g) in tools.items()})
    for name in shared.order:
        found = run_graph(*tools[name], [source], CpuEngine(), shared=shared.of(name))
        for node, rows in alone[name].items():
            assert_frame_equal(found[node], rows, rel_tol=1e-9)
    uses = [names for names in states if "of.uses" in names]
    assert len(uses) == len(of_each) > 4


@pytest.mark.parametrize("many", [5000, 1 << 40])
@pytest.mark.usefixtures("states")
def test_what_polars_cannot_do_is_one_line_in_either_way(source, monkeypatch, many):
    monkeypatch.setattr(cpu, "MANY_ROWS", many)
    lines = [
        "{version: 1, tool: t, about: A., inputs: {accesses: access}, report: [{table: n}], stages: {",
        "y: {use: derive, from: accesses, columns: {y: address::int}},",
        "n: {use: aggregate, from: y, by: y, measures: {n: count(*)}}}}",
    ]
    config = parse_config(read_yaml("\n".join(lines)))
    with pytest.raises(EngineError, match=r"^the cpu engine failed: [^\n]*$"):
        run_graph(config, build_graph(config, {}, pytest.fail), [source], CpuEngine())


@pytest.mark.parametrize(("threads", "shards"), [(1, 2), (4, 2), (10, 5), (64, 8)])
def test_more_shards_are_in_flight_on_more_cores(monkeypatch, threads, shards):
    monkeypatch.setattr(pl, "thread_pool_size", lambda: threads)
    assert shards_at_once() == shards
