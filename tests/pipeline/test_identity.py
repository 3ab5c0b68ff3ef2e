"""What a graph has twice, by tools that it includes by two ways, runs once."""

from __future__ import annotations

import pytest

from pasta import api
from pasta.pipeline.config import parse_config
from pasta.pipeline.identity import number_nodes
from pasta.pipeline.wiring import build_graph
from pasta.yaml_text import read_yaml

TIMES = """
version: 1
tool: times
about: A.
inputs: {kernels: {table: kernel}}
parameters: {least: {type: int, default: 5}}
stages:
  long: {use: filter, from: kernels, where: dur >= $least}
  sums: {use: aggregate, from: long, by: name, measures: {time: sum(dur)}}
"""
LEAST = "{version: 1, tool: least, about: A., include: [times], stages: {few: {use: top, from: times.sums, by: time, n: 1, smallest: true}}}"
BOTH = "{version: 1, tool: both, about: A., include: {times: PARAMETERS, least: least}, stages: {all: {use: concat, from: [times.sums, least.few]}}}"
TOOLS = {"times": TIMES, "least": LEAST}


def graph_of(parameters):
    text = BOTH.replace("PARAMETERS", parameters)
    return build_graph(
        parse_config(read_yaml(text)),
        {},
        lambda name, _includer: parse_config(read_yaml(TOOLS[name])),
    )


def test_a_tool_that_is_included_twice_runs_once():
    graph = graph_of("times")
    assert graph.needed(["all"]) == ["times.long", "times.sums", "least.few", "all"]
    assert graph.nodes["least.few"].sources == ("times.sums",)
    assert graph.above("all") & graph.inputs.keys() == {"times.kernels"}
    assert graph.schemas["all"].names() == ["name", "time"]


def test_other_parameters_make_other_nodes():
    graph = graph_of("{tool: times, parameters: {least: 6}}")
    assert graph.needed(["all"]) == [
        *("times.long", "times.sums"),
        *("least.times.long", "least.times.sums", "least.few", "all"),
    ]


@pytest.mark.parametrize("tool", ["variability", "step_budget"])
def test_no_node_that_a_shipped_tool_reads_is_there_twice(tool):
    _, graph = api.check(tool)
    numbers = number_nodes(graph, {})
    read = {source for node in graph.nodes.values() for source in node.sources}
    assert len({numbers[name] for name in read}) == len(read)
