"""Nodes that graphs have in common run once, are held as long as they are read, and change no result."""

from __future__ import annotations

import dataclasses
import weakref

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pasta
from pasta import api
from pasta.pipeline.config import parse_config
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.run import Source, run_graph, wanted_nodes
from pasta.pipeline.sharing import SharedRows, in_turn
from pasta.pipeline.wiring import build_graph
from pasta.tools.shipped import SHIPPED_TRACE
from pasta.yaml_text import read_yaml

HEAD = """
version: 1
tool: example
about: An example.
inputs: {kernels: {table: kernel}}
"""
BY_NAME = "by_name: {use: aggregate, from: long, by: name, measures: {time: sum(dur)}}"
FIRST = f"""
stages:
  long: {{use: filter, from: kernels, where: dur >= 5}}
  {BY_NAME}
  top: {{use: top, from: by_name, by: time, n: 1}}
report: [{{table: top}}]
"""
SECOND = f"""
stages:
  long: {{use: filter, from: kernels, where: dur >= 5}}
  {BY_NAME}
  least: {{use: top, from: by_name, by: time, n: 1, smallest: true}}
report: [{{table: least}}]
"""
OTHER = SECOND.replace("dur >= 5", "dur >= 6")


class CountingEngine(CpuEngine):
    """Counts the plans that group rows."""

    def __init__(self) -> None:
        super().__init__()
        self.grouped = 0

    def collect(self, plans):
        self.grouped += sum("AGGREGATE" in plan.explain() for plan in plans)
        return super().collect(plans)


@pytest.fixture
def trace(make_trace):
    rows = [{"name": name, "dur": dur} for name, dur in (("a", 5), ("b", 9), ("a", 8), ("c", 6))]
    return Source("t", make_trace(kernel=rows))


def graphs_of(*texts):
    configs = [parse_config(read_yaml(HEAD + text)) for text in texts]
    return [(config, build_graph(config, {}, None)) for config in configs]


def run_all(*texts, trace):
    """Run graphs one after another; return the rows of each, and how many plans of it grouped."""
    tools = dict(enumerate(graphs_of(*texts)))
    shared = SharedRows({n: (g, wanted_nodes(c, outputs=False)) for n, (c, g) in tools.items()})
    rows, counts = {}, {}
    for number in shared.order:
        engine = CountingEngine()
        rows[number] = run_graph(*tools[number], [trace], engine, shared=shared.of(number))
        counts[number] = engine.grouped
    return rows, counts


def test_a_common_node_runs_in_the_first_graph_alone(trace):
    rows, counts = run_all(FIRST, SECOND, trace=trace)
    assert rows[0]["top"].rows() == [("a", 13)]
    assert rows[1]["least"].rows() == [("c", 6)]
    assert counts == {0: 1, 1: 0}


def test_other_arguments_are_other_nodes(trace):
    rows, counts = run_all(FIRST, OTHER, trace=trace)
    assert rows[1]["least"].rows() == [("c", 6)]
    assert counts == {0: 1, 1: 1}


def test_rows_are_forgotten_when_the_last_graph_has_read_them(trace):
    (config, graph), (_, second), (_, other) = graphs_of(FIRST, SECOND, OTHER)
    shared = SharedRows(
        {"first": (graph, ["top"]), "other": (other, ["least"]), "second": (second, ["least"])}
    )
    assert shared.order == ["other", "first", "second"]
    run_graph(config, graph, [trace], CpuEngine(), shared=shared.of("first"))
    assert list(shared.of("second").known()) == ["by_name"]
    assert shared.of("first").asked() == {"by_name"}
    assert shared.of("second").asked() == set()
    assert shared.of("other").known() == {}


def test_tools_that_read_the_same_follow_each_other():
    nodes = {"a": {1, 2}, "b": {3, 4}, "c": {2, 9}, "d": {4, 5}, "e": {1, 2, 3}, "f": {7}}
    assert in_turn(nodes) == ["f", "c", "a", "e", "b", "d"]


def test_of_tools_that_add_the_same_the_one_with_most_of_its_own_is_last():
    assert in_turn({"a": {1, 2, 7, 8}, "b": {1, 2}, "c": {1, 2, 9}}) == ["b", "c", "a"]


def test_the_last_graph_lets_shared_rows_go_when_it_has_read_them(trace):
    last = f"""
stages:
  long: {{use: filter, from: kernels, where: dur >= 5}}
  {BY_NAME}
  after: {{use: nearest, from: by_name, by: [], order: [time], columns: {{least: time}}}}
  again: {{use: nearest, from: after, by: [], order: [time], columns: {{below: least}}}}
report: [{{table: again}}]
"""
    tools = dict(enumerate(graphs_of(FIRST, last)))
    shared = SharedRows({n: (g, wanted_nodes(c, outputs=False)) for n, (c, g) in tools.items()})
    assert shared.order == [0, 1]
    alive: list[bool] = []

    class Watching(CpuEngine):
        def run_parts(self, *given):
            self.given = weakref.ref(given[-1]["by_name"])
            return {}

        def collect(self, plans):
            alive.append(self.given() is not None)
            return super().collect(plans)

    run_graph(*tools[0], [trace], CpuEngine(), shared=shared.of(0))
    rows = run_graph(*tools[1], [trace], Watching(), shared=shared.of(1))
    assert rows["again"]["below"].to_list() == [6, None, None]
    assert alive == [True, False, False]


def test_a_graph_forgets_a_plan_when_the_last_node_that_reads_it_has_its_own(trace):
    stages = f"""
stages:
  long: {{use: filter, from: kernels, where: dur >= 5}}
  {BY_NAME}
  after: {{use: nearest, from: by_name, by: [], order: [time], columns: {{least: time}}}}
report: [{{table: after}}, {{table: by_name}}]
"""
    ((config, graph),) = graphs_of(stages)
    made: dict[str, weakref.ref] = {}
    remembered: list[set[str]] = []

    def watched(node):
        def function(*frames, **arguments):
            rows = node.stage.function(*frames, **arguments)
            made[node.name] = weakref.ref(rows)
            return rows

        return dataclasses.replace(
            node, stage=dataclasses.replace(node.stage, function=function, unsorted=None)
        )

    class Watching(CpuEngine):
        def collect(self, plans):
            remembered.append({name for name, plan in made.items() if plan() is not None})
            return super().collect(plans)

    nodes = {name: watched(node) for name, node in graph.nodes.items()}
    rows = run_graph(config, dataclasses.replace(graph, nodes=nodes), [trace], Watching())
    assert rows["after"]["least"].to_list() == [9, 6, None]
    assert ["long" in names for names in remembered] == [True, False, False]


def test_what_is_held_keeps_the_order_that_its_stage_defines(trace):
    stages = f"""
stages:
  long: {{use: filter, from: kernels, where: dur >= 5}}
  {BY_NAME}
  again: {{use: derive, from: by_name, columns: {{twice: 2 * time}}}}
report: [{{table: by_name}}, {{table: again}}]
"""
    ((config, graph),) = graphs_of(stages)
    rows = run_graph(config, graph, [trace], CpuEngine())
    assert graph.read_again(["by_name", "again"]) == {"by_name"}
    assert rows["by_name"].rows() == [("a", 13), ("b", 9), ("c", 6)]
    assert rows["again"]["twice"].to_list() == [26, 18, 12]


def test_what_several_read_through_a_stage_row_by_row_runs_once(trace):
    stages = f"""
stages:
  long: {{use: filter, from: kernels, where: dur >= 5}}
  {BY_NAME}
  twice: {{use: derive, from: by_name, columns: {{twice: 2 * time}}}}
  sums: {{use: aggregate, from: twice, measures: {{sum: sum(twice)}}}}
  least: {{use: top, from: twice, by: twice, n: 1, smallest: true}}
report: [{{table: sums}}, {{table: least}}]
"""
    ((config, graph),) = graphs_of(stages)
    assert graph.read_again(["sums", "least"]) == {"by_name"}
    engine = CountingEngine()
    rows = run_graph(config, graph, [trace], engine)
    assert (rows["sums"].rows(), rows["least"]["name"].to_list()) == ([(56,)], ["c"])


def test_reports_of_all_tools_are_those_of_each():
    """On the trace that ships, whatever tools have in common."""
    reports, left_out = api.report([SHIPPED_TRACE], engine="cpu")
    assert {"samples", "reuse"} <= left_out.keys()
    names = [report.tool for report in reports]
    assert names == sorted(names)
    for report in reports:
        alone = pasta.run(report.tool, SHIPPED_TRACE, engine="cpu")
        assert report.findings == alone.findings
        assert report.facts == alone.facts
        assert report.tables.keys() == alone.tables.keys()
        for name, rows in report.tables.items():
            assert_frame_equal(rows, alone.tables[name], check_column_order=False)


def test_a_held_row_is_not_lost_where_a_tool_needs_nothing_else(trace):
    rows, counts = run_all(FIRST, FIRST, trace=trace)
    assert counts == {0: 1, 1: 0}
    assert_frame_equal(rows[0]["top"], rows[1]["top"])
    assert isinstance(rows[1]["top"], pl.DataFrame)


def test_what_a_plan_holds_does_not_lie_beside_the_array_stage_that_ran_it(trace):
    stages = """
stages:
  long: {use: filter, from: kernels, where: dur >= 5}
  working: {use: busy, from: long, by: [device]}
report: [{table: working}]
"""
    ((config, graph),) = graphs_of(stages)
    made: dict[str, weakref.ref] = {}
    beside: list[set[str]] = []

    def watched(node):
        def function(*frames, **arguments):
            if node.stage.array:
                beside.append({name for name, plan in made.items() if plan() is not None})
            rows = node.stage.function(*frames, **arguments)
            made[node.name] = weakref.ref(rows)
            return rows

        return dataclasses.replace(
            node, stage=dataclasses.replace(node.stage, function=function, unsorted=None)
        )

    nodes = {name: watched(node) for name, node in graph.nodes.items()}
    rows = run_graph(config, dataclasses.replace(graph, nodes=nodes), [trace], CpuEngine())
    assert rows["working"].columns == ["device", "ts", "dur"]
    assert beside == [set()]
