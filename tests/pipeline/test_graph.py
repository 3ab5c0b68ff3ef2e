"""Graphs: wiring, the check on empty tables, includes, and running over rows."""

from __future__ import annotations

import polars as pl
import pytest

from pasta.errors import ConfigError
from pasta.pipeline.config import ToolConfig, parse_config
from pasta.pipeline.wiring import build_graph
from pasta.yaml_text import read_yaml

BASE = """
version: 1
tool: example
about: An example.
inputs: {kernels: {table: kernel}}
parameters: {least: {type: int, default: 5}}
"""


def tool(stages: str, head: str = BASE) -> ToolConfig:
    return parse_config(read_yaml(head + stages))


def no_tools(name: str, _includer: ToolConfig) -> ToolConfig:
    raise AssertionError(name)


def graph_of(stages: str, **settings):
    return build_graph(tool(stages), settings, no_tools)


def run(graph, rows: pl.DataFrame, node: str) -> pl.DataFrame:
    plans = graph.plan({"kernels": rows.lazy()}, [node], pl.collect_all)
    return plans[node].collect()


ROWS = pl.DataFrame({"name": ["a", "b", "a", "c"], "dur": [3, 9, 8, 5]})


def test_runs_stages_in_order_of_need_not_of_writing():
    graph = graph_of(
        """
stages:
  top: {use: top, from: by_name, by: time, n: 1}
  by_name: {use: aggregate, from: long, by: name, measures: {time: sum(dur), calls: count(*)}}
  long: {use: filter, from: kernels, where: dur >= $least}
"""
    )
    assert list(graph.nodes) == ["long", "by_name", "top"]
    assert run(graph, ROWS, "top").rows() == [("b", 9, 1)]
    assert [node.kind for node in graph.nodes.values()] == ["row-wise", "mergeable", "mergeable"]


def test_parameters_change_the_result():
    stages = "stages: {long: {use: filter, from: kernels, where: dur >= $least}}"
    assert run(graph_of(stages), ROWS, "long").height == 3
    assert run(graph_of(stages, least="9"), ROWS, "long").height == 1


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ("{a: {use: filtre, from: kernels, where: dur > 1}}", "stages.a.use: no stage 'filtre'. Did you mean 'filter'?"),
        ("{a: {use: filter, from: kernel, where: dur > 1}}", "stages.a.from: no input or stage 'kernel'. Did you mean 'kernels'?"),
        ("{a: {use: filter, from: kernels}}", "stages.a: stage 'filter' needs the argument 'where'"),
        ("{a: {use: filter, from: kernels, were: dur > 1}}", "stages.a.were: stage 'filter' has no such argument. Did you mean 'where'?"),
        ("{a: {use: top, from: kernels, by: dur, n: many}}", "stages.a.n: expected int, got 'many'"),
        ("{a: {use: top, from: kernels, by: dur, n: true}}", "stages.a.n: expected int, got True"),
        ("{a: {use: top, from: kernels, by: dur, n: $most}}", "stages.a.n: no parameter 'most'"),
        ("{a: {use: filter, from: kernels, where: duration > 1}}", 'stages.a: unable to find column "duration"; valid columns'),
        ("{a: {use: filter, from: kernels, where: name > 1}}", "stages.a: "),
        ("{a: {use: filter, from: b, where: dur > 1}, b: {use: filter, from: a, where: dur > 1}}", "stages.a: the stages feed each other in a circle: a -> b -> a"),
        ("{a: {use: join, from: kernels, on: rank}}", "stages.a.from: stage 'join' needs an input for 'right'"),
        ("{a: {use: join, from: {left: kernels, rigth: kernels}, on: rank}}", "stages.a.from.rigth: stage 'join' has no such input. Did you mean 'right'?"),
        ("{a: {use: filter, from: [kernels, kernels], where: dur > 1}}", "stages.a.from: stage 'filter' takes 1 inputs"),
        ("{a: {use: join, from: [kernels, kernels], on: rank, how: outer}}", "stages.a.how: expected one of inner, left, semi, anti, got 'outer'"),
        ("{kernels: {use: filter, from: kernels, where: dur > 1}}", "stages.kernels: an input has this name"),
        ("{a: {use: concat, from: [kernels, kernels], label: x, values: [one]}}", "stages.a.values: needs one value for each of the 2 inputs"),
    ],
)  # fmt: skip
def test_mistakes_are_found_before_any_data(stages, message):
    with pytest.raises(ConfigError) as caught:
        _ = build_graph(tool(f"stages: {stages}"), {}, no_tools).schemas
    assert str(caught.value).startswith(message)


def test_unknown_parameter():
    with pytest.raises(ConfigError, match=r"no such parameter\. Did you mean 'least'"):
        graph_of("stages: {}", leest="3")


def test_schemas_name_types():
    graph = graph_of(
        "stages: {a: {use: aggregate, from: kernels, by: name, measures: {n: count(*)}}}"
    )
    assert graph.schemas["a"] == pl.Schema({"name": pl.String, "n": pl.Int64})


INCLUDED = """
version: 1
tool: inner
about: Inner.
inputs: {kernels: {table: kernel}}
parameters: {n: {type: int, default: 1}}
stages: {top: {use: top, from: kernels, by: dur, n: $n}}
"""


def test_include_uses_the_stages_of_another_tool():
    outer = tool(
        "include: {inner: {tool: inner, parameters: {n: 2}}}\n"
        "stages: {names: {use: select, from: inner.top, columns: [name]}}"
    )
    graph = build_graph(outer, {}, lambda _name, _includer: parse_config(read_yaml(INCLUDED)))
    tables = {"kernels": ROWS.lazy(), "inner.kernels": ROWS.lazy()}
    plan = graph.plan(tables, ["names"], pl.collect_all)["names"]
    assert plan.collect()["name"].to_list() == ["b", "a"]


def test_tools_that_include_each_other():
    circular = INCLUDED + "include: [inner]\n"
    with pytest.raises(ConfigError, match="circle: inner -> inner"):
        build_graph(
            parse_config(read_yaml(circular)),
            {},
            lambda _name, _includer: parse_config(read_yaml(circular)),
        )
