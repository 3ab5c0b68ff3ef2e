"""Clauses of stages and rows that entries of the report make are stages as if they were written out."""

from __future__ import annotations

import polars as pl
import pytest

from pasta.errors import ConfigError
from pasta.pipeline.config import ToolConfig, parse_config
from pasta.pipeline.graph import Graph
from pasta.pipeline.identity import number_nodes
from pasta.pipeline.wiring import build_graph
from pasta.tools.shipped import ToolFiles
from pasta.yaml_text import read_yaml

HEAD = "{version: 1, tool: t, about: A., inputs: {kernels: kernel, calls: optional call}, "


def tool(rest: str) -> tuple[ToolConfig, Graph]:
    config = parse_config(read_yaml(HEAD + rest + "}"))
    return config, build_graph(config, {}, ToolFiles().included)


def same(short: str, long: str, *pairs: tuple[str, str]) -> None:
    """Check that nodes of two graphs are the same, down to the tables."""
    numbers: dict[object, int] = {}
    found, wanted = (number_nodes(tool(text)[1], numbers) for text in (short, long))
    for one, other in pairs:
        assert found[one] == wanted[other]


def test_clauses_are_stages_before_and_after():
    same(
        "stages: {busy: {use: aggregate, from: kernels, where: dur > 0, by: [name],"
        " measures: {ns: sum(dur)}, derive: {share: ns / sum(ns)}, having: share > 0.1,"
        " sort: {by: ns, descending: true}}}",
        "stages: {a: {use: filter, from: kernels, where: dur > 0},"
        " b: {use: aggregate, from: a, by: [name], measures: {ns: sum(dur)}},"
        " c: {use: derive, from: b, columns: {share: ns / sum(ns)}},"
        " d: {use: filter, from: c, where: share > 0.1},"
        " e: {use: sort, from: d, by: ns, descending: true}}",
        ("busy:where", "a"),
        ("busy:rows", "b"),
        ("busy:derive", "c"),
        ("busy:having", "d"),
        ("busy", "e"),
    )


def test_columns_that_build_on_one_another_are_a_list():
    same(
        "stages: {x: {use: derive, from: kernels, columns: {a: dur + 1}, derive: [{b: 2 * a}, {c: b - a}],"
        " select: [trace, c], dedupe: trace, top: {by: c, n: 2}}}",
        "stages: {p: {use: derive, from: kernels, columns: {a: dur + 1}},"
        " q: {use: derive, from: p, columns: {b: 2 * a}},"
        " r: {use: derive, from: q, columns: {c: b - a}},"
        " s: {use: select, from: r, columns: [trace, c]},"
        " t: {use: dedupe, from: s, by: trace}, u: {use: top, from: t, by: c, n: 2}}",
        ("x", "u"),
    )


def test_where_is_of_the_first_source_and_an_argument_of_a_stage_stays_its_own():
    same(
        "stages: {x: {use: join, from: [kernels, calls], where: dur > 0, on: [correlation], how: semi},"
        " y: {use: filter, from: kernels, where: dur > 0}}",
        "stages: {y: {use: filter, from: kernels, where: dur > 0},"
        " z: {use: join, from: [y, calls], on: [correlation], how: semi}}",
        ("x", "z"),
        ("y", "y"),
    )
    assert set(tool("stages: {y: {use: filter, from: kernels, where: dur > 0}}")[1].nodes) == {"y"}


def test_a_measure_may_be_a_word():
    same(
        'stages: {x: {use: aggregate, from: kernels, measures: {dur: total, ts: min, "end": {n_unique: name}}}}',
        'stages: {x: {use: aggregate, from: kernels, measures: {dur: "coalesce(sum(dur), 0)", ts: min(ts),'
        ' "end": {n_unique: name}}}}',
        ("x", "x"),
    )
    _, graph = tool(
        "stages: {x: {use: derive, from: kernels, columns: {end: ts + dur}},"
        " y: {use: aggregate, from: x, measures: {end: max}}}"
    )
    rows = pl.LazyFrame({"end": [3, 5]})
    plans = graph.plan({"x": rows}, ["y"], lambda plans: [plan.collect() for plan in plans])
    assert plans["y"].collect().rows() == [(5,)]


def test_entries_of_the_report_make_their_rows():
    short = (
        "report: [{finding: '{name}', from: kernels, by: dur, n: 1}, {facts: all, from: kernels,"
        " measures: {ns: sum(dur)}}, {table: long, from: kernels, where: dur > 5, by: ts, title: Long}]"
    )
    same(
        short,
        "stages: {first: {use: top, from: kernels, by: dur, n: 1},"
        " all: {use: aggregate, from: kernels, measures: {ns: sum(dur)}},"
        " some: {use: filter, from: kernels, where: dur > 5}, long: {use: sort, from: some, by: ts}}",
        ("report[0]", "first"),
        ("all", "all"),
        ("long", "long"),
    )
    assert [dict(item.options) for item in tool(short)[0].report] == [
        {"finding": "{name}", "from": "report[0]"},
        {"facts": "all"},
        {"table": "long", "title": "Long"},
    ]


def test_the_tool_has_top_where_it_says_so():
    by = "stages: {most: {use: top, from: kernels, by: dur, n: $top}}"
    assert tool(by)[1].parameters == {"top": 20}
    assert tool(f"parameters: {{top: 3}}, {by}")[1].parameters == {"top": 3}
    assert (
        tool("stages: {a: {use: filter, from: kernels, where: \"name = '$$top'\"}}")[1].parameters
        == {}
    )


def test_a_parameter_has_the_type_of_its_default():
    config, _ = tool(
        "parameters: {a: {default: 1}, b: {default: 1.0}, c: {default: ''}, d: {default: true}}"
    )
    kinds = [parameter.kind for parameter in config.parameters.values()]
    assert kinds == ["int", "float", "string", "bool"]


def test_an_input_may_be_optional_in_a_word():
    config, _ = tool("stages: {}")
    assert {name: given.optional for name, given in config.inputs.items()} == {
        "kernels": False,
        "calls": True,
    }


MISTAKES = {
    "stages: {x: {use: sort, from: kernels, by: ts, where: durr > 0}}": "stages.x: .*durr",
    "stages: {x: {use: sort, from: kernels, by: ts, wher: dur > 0}}": "stages.x.wher: stage 'sort' has no",
    "stages: {x: {use: sort, from: kernels, by: ts, top: ts}}": "stages.x.top: stage 'top' needs the argument 'n'",
    "stages: {x: {use: sort, from: kernels, by: ts, derive: 5}}": "stages.x.derive.columns: ",
    "report: [{table: x, from: kernels}]": r"report\[0\]: 'from' needs 'where', 'by' or 'measures' beside it",
    "report: [{table: x, by: ts}]": r"report\[0\].from: is missing",
    "stages: {x: {use: sort, from: kernels, by: ts}}, report: [{table: x, from: kernels, by: ts}]": (
        r"report\[0\].table: the stage 'x' has rows; leave out 'from'"
    ),
    "report: [{finding: a, from: kernels, by: tss}]": r"report\[0\].by",
    "findings: [{table: x}]": r"findings\[0\]: expected a finding",
    "parameters: {a: {default: [1]}}": "parameters.a.type: is missing",
}  # fmt: skip


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_named_where_they_stand(text):
    with pytest.raises(ConfigError, match=MISTAKES[text]):
        _ = tool(text)[1].schemas


@pytest.mark.parametrize("name", ["top", "where", "limit", "with", "user", "end", "my dur"])
def test_a_measure_may_be_a_word_for_any_column(name):
    columns = f"columns: {{'{name}': dur}}"
    text = f"stages: {{d: {{use: derive, from: kernels, {columns}}}, x: {{use: aggregate, from: d, measures: {{'{name}': sum}}}}}}"
    _, graph = tool(text)
    assert graph.schemas["x"].names() == [name]
