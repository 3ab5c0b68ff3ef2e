"""Graphs without the column that tells traces apart; test_device_graph.py runs all tools so."""

from __future__ import annotations

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pasta.pipeline.config import parse_config
from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.engines.device_graph import DeviceGraph
from pasta.pipeline.engines.rehearsal import Rehearsal
from pasta.pipeline.one_trace import with_trace, without_trace
from pasta.pipeline.run import Source, input_tables, only_trace, run_graph, wanted_nodes
from pasta.pipeline.wiring import build_graph
from tests.conftest import write_trace

KERNELS = [
    {"ts": ts, "dur": 5, "name": name, "rank": ts % 2}
    for ts, name in [(0, "a"), (3, "b"), (4, "a")]
]
GAP = "ts - lag(ts) over (partition by trace, rank order by ts)"
DERIVED = "by_name: {use: derive, from: kernels, columns: {n: %s}}"
COUNTED = "shown: {use: aggregate, from: traces, measures: {n: count(*)}}"
BY_NAME = "by_name: {use: aggregate, from: kernels, by: %s, measures: {n: count(*), of: %s}}"


def graph_of(stages, shown):
    import yaml

    written = "\n".join(f"  {stage}" for stage in stages)
    document = yaml.safe_load(
        f"version: 1\ntool: t\nabout: A.\ninputs: {{kernels: {{table: kernel}}}}\nstages:\n{written}\n"
        f"report: [{{table: {shown}}}]\n"
    )
    config = parse_config(document)
    return config, build_graph(config, {}, pytest.fail)


@pytest.mark.parametrize(
    ("stage", "needing"),
    [
        (BY_NAME % ("[trace, name]", "min(ts)"), False),
        (BY_NAME % ("[trace]", "min(ts)"), True),
        (BY_NAME % ("[name]", "min(trace)"), True),
        ("by_name: {use: filter, from: kernels, where: trace = 't'}", True),
        ("by_name: {use: select, from: kernels, columns: [ts, trace, name]}", False),
        ("by_name: {use: select, from: kernels, columns: {n: name, trace: trace}}", False),
        ("by_name: {use: select, from: kernels, columns: {n: name, run: trace}}", True),
        ("by_name: {use: sort, from: kernels, by: [trace, ts]}", False),
        (DERIVED % f"'{GAP}'", False),
        (DERIVED % "sum(ts) over (partition by trace)", True),
    ],
)
def test_a_node_that_needs_the_column_has_it_and_all_rows_are_as_with_it(tmp_path, stage, needing):
    config, graph = graph_of([stage], "by_name")
    source = Source("t", write_trace(tmp_path / "t", kernel=KERNELS))
    wanted = wanted_nodes(config, outputs=False)
    shorter = without_trace(graph, graph.needed(wanted))
    assert shorter is not None
    assert shorter.needing == ({"by_name"} if needing else set())
    expected = run_graph(config, graph, [source], CpuEngine())["by_name"]
    tables = input_tables(config, graph, [source])
    seen = []
    device = Rehearsal(lambda plan: seen.append("trace" in plan.collect_schema()) or [])
    found = DeviceGraph(graph, device, {}).run(tables, wanted, only_trace([source]))
    assert_frame_equal(found["by_name"], expected)
    assert expected.height
    assert seen == [False]


def test_a_column_that_may_hold_nulls_stays():
    stages = [
        "names: {use: aggregate, from: kernels, by: name, measures: {n: count(*)}}",
        "few: {use: filter, from: kernels, where: ts > 3}",
        "named: {use: join, from: [names, few], 'on': [name], how: left, columns: [trace]}",
        "made: {use: derive, from: kernels, columns: {trace: name}}",
    ]
    _, graph = graph_of(stages, "named")
    assert without_trace(graph, ["names", "few"]) is not None
    assert without_trace(graph, ["names", "few", "named"]) is None
    assert without_trace(graph, ["made"]) is None


@pytest.mark.parametrize(
    "stages",
    [
        ["shown: {use: value_counts, from: kernels, by: [name], value: ts, tick: trace}"],
        ["shown: {use: nearest, from: kernels, by: [rank], order: [ts], columns: {trace: trace}}"],
        [
            "shown: {use: unpivot, from: kernels, columns: {a: name, trace: trace}, label: n, value: v}"
        ],
        ["traces: {use: select, from: kernels, columns: [trace]}", COUNTED],
        ["traces: {use: select, from: kernels, columns: {trace: trace}}", COUNTED],
    ],
)
def test_a_column_that_is_another_or_the_only_one_stays(tmp_path, stages):
    few = "few: {use: filter, from: kernels, where: ts > 3}"
    config, graph = graph_of([few, *stages], "shown")
    source = Source("t", write_trace(tmp_path / "t", kernel=KERNELS))
    expected = run_graph(config, graph, [source], CpuEngine())["shown"]
    tables = input_tables(config, graph, [source])
    found = DeviceGraph(graph, Rehearsal(), {}).run(tables, ["shown"], only_trace([source]))
    assert_frame_equal(found["shown"], expected)
    assert expected.height


def test_the_column_comes_back_where_it_was():
    rows = pl.DataFrame({"n": [1, 2], "name": ["a", "b"]})
    schema = pl.Schema({"n": pl.Int64, "trace": pl.String, "name": pl.String})
    expected = pl.DataFrame({"n": [1, 2], "trace": ["t", "t"], "name": ["a", "b"]})
    assert_frame_equal(with_trace(rows, schema, "t"), expected)
    assert_frame_equal(with_trace(rows, rows.schema, "t"), rows)
