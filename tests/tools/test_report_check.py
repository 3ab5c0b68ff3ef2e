"""Mistakes in `report:` are found by `check`, before any data is read."""

from __future__ import annotations

import pytest

import pasta
from pasta import api
from pasta.errors import ConfigError

BASE = """
version: 1
tool: example
about: An example.
inputs: {k: {table: kernel}}
parameters: {n: {type: int, default: 3}}
stages:
  long: {use: filter, from: k, where: dur > 1}
report:
  - ITEM
"""


def check(tmp_path, item, head=BASE):
    path = tmp_path / "tool.yaml"
    path.write_text(head.replace("ITEM", item))
    return api.check(str(path))


@pytest.mark.parametrize(
    "item",
    [
        '{finding: "{name} took {dur:time}, {n} at most", from: long, row: 0, when: dur > $n}',
        '{finding: "{n:row|rows}: {registers:register|registers}", from: long}',
        "{table: long, columns: [name, dur], limit: 5, title: 'Top {n}'}",
        "{table: long, columns: [name, dur], where_filled: [dur]}",
        "{table: long, where_filled: []}",
        "{chart: bar, from: long, x: name, y: dur, limit: 3}",
        "{chart: line, from: long, x: ts, y: dur}",
        "{chart: heatmap, from: long, x: ts, y: launch_id, value: dur}",
        "{note: 'n is {n}'}",
    ],
)
def test_good_items(tmp_path, item):
    check(tmp_path, item)


def test_columns_that_hold_nothing_are_not_shown_where_a_tool_says_so(tmp_path, make_trace):
    table = "{table: told, columns: [name, none, some, blank], where_filled: [none, some, blank]}"
    path = tmp_path / "tool.yaml"
    told = (
        "  told: {use: derive, from: long, columns: {none: stream, some: registers, blank: \"''\"}}"
    )
    path.write_text(BASE.replace("report:", f"{told}\nreport:").replace("ITEM", table))
    kernels = [{"dur": 5, "name": "a"}, {"dur": 6, "name": "b", "registers": 7}]
    trace = make_trace(kernel=kernels)
    [part] = pasta.run(str(path), trace=trace).parts
    assert part.columns == ["name", "some"]
    path.write_text(BASE.replace("ITEM", "{table: long, where_filled: []}"))
    assert "name" in pasta.run(str(path), trace=trace).parts[0].shown.columns


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("{finding: '{nope}', from: long}", "report[0].finding: no column or parameter 'nope'"),
        ("{finding: '{dur:tiem}', from: long}", "report[0].finding: '{dur:tiem}' tells no kind of value; there are time bytes"),
        ("{finding: '{dur:a|b|c}', from: long}", "report[0].finding: '{dur:a|b|c}' tells no kind of value"),
        ("{finding: '{name:call|calls}', from: long}", "report[0].finding: '{name:call|calls}' counts, but 'name' is String"),
        ("{finding: [x], from: long}", "report[0].finding: expected text"),
        ("{finding: x}", "report[0].from: is missing"),
        ("{finding: x, from: long, row: text}", "report[0].row: expected a whole number from 0 on"),
        ("{finding: x, from: long, row: -1}", "report[0].row: expected a whole number from 0 on"),
        ("{finding: x, from: long, when: dur}", "report[0].when: expected a condition, got a value of type Int64"),
        ("{finding: x, from: long, weight: name}", "report[0].weight: expected a share, got a value of type String"),
        ("{finding: x, from: long, weight: nope}", "report[0].weight: unable to find column"),
        ("{finding: x, from: long, when: nope > 1}", "report[0].when: unable to find column"),
        ("{finding: x, from: long, when: 'syntax ((('}", "report[0].when: "),
        ("{finding: x, from: long, when: dur > $zz}", "report[0].when: no parameter 'zz'"),
        ("{finding: x, from: lung}", "report[0].from: no stage or input 'lung'. Did you mean 'long'?"),
        ("{table: null}", "report[0].table: is missing"),
        ("{table: long, columns: [name], where_filled: [dur]}", "report[0].where_filled: 'dur' is none of 'columns'"),
        ("{table: long, columns: [name], where_filled: name}", "report[0].where_filled: expected"),
        ("{table: [a]}", "report[0].table: expected text"),
        ("{facts: [a]}", "report[0].facts: expected text"),
        ("{table: long, columns: [nope]}", "report[0].columns[0]: no column 'nope'"),
        ("{table: long, columns: name}", "report[0].columns: expected a list"),
        ("{table: long, columns: [1]}", "report[0].columns[0]: expected text"),
        ("{table: long, columns: [name, name]}", "report[0].columns: names a column twice"),
        ("{table: long, limit: 0}", "report[0].limit: expected a whole number from 1 on"),
        ("{table: long, limit: x}", "report[0].limit: expected a whole number from 1 on"),
        ("{chart: pie, from: long, x: ts, y: dur}", "report[0].chart: expected bar, line, heatmap, scatter, interval, flame, source, parallel or network, got 'pie'"),
        ("{chart: heatmap, from: long, x: ts, y: launch_id}", "report[0].value: is missing"),
        ("{chart: heatmap, from: long, x: ts, y: launch_id, value: name}", "report[0].value: expected numbers"),
        ("{chart: heatmap, from: long, x: ts, y: name, value: dur}", "report[0].y: expected numbers"),
        ("{chart: heatmap, from: long, x: ts, y: dur, value: dur}", "report[0].value: shows 'dur', as y does"),
        ("{chart: line, from: long, x: ts, y: dur, value: dur}", "report[0].value: a line chart has no value"),
        ("{chart: line, from: long, x: name, y: dur}", "report[0].x: expected numbers"),
        ("{chart: bar, from: long, x: ts, y: name}", "report[0].y: expected numbers"),
        ("{chart: bar, from: long, x: ts, y: ts}", "report[0].y: shows 'ts', as x does"),
        ("{chart: bar, from: long, x: ts}", "report[0].y: is missing"),
        ("{note: 5}", "report[0].note: expected text, got 5"),
        ("{note: '{zz}'}", "report[0].note: no column or parameter 'zz'"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path, item, message):
    with pytest.raises(ConfigError) as caught:
        check(tmp_path, item)
    assert str(caught.value).split("tool.yaml: ")[-1].startswith(message)


def test_report_functions_must_exist(tmp_path):
    head = BASE.replace("report:\n  - ITEM", "report_function: sumary")
    with pytest.raises(ConfigError, match=r"no report function 'sumary'\. Did you mean 'summary'"):
        check(tmp_path, "", head)


@pytest.mark.parametrize(
    ("weight", "expected"),
    [("dur", [4.0, 3.0]), ("1", [1.0, 1.0]), ("max(dur)", [4.0, 4.0]), ("0.0 / (dur - 3)", [0.0, 0.0])],
)  # fmt: skip
@pytest.mark.parametrize("least", [0, 9])
def test_each_finding_has_a_weight(tmp_path, make_trace, weight, expected, least):
    item = f'{{finding: "{{name}}", from: long, when: dur > {least}, weight: {weight}}}'
    check(tmp_path, item)
    kernels = [{"ts": 0, "dur": 4, "name": "a"}, {"ts": 9, "dur": 3, "name": "b"}]
    report = pasta.run(str(tmp_path / "tool.yaml"), trace=make_trace(kernel=kernels))
    told = dict(zip("ab", expected, strict=True)) if least == 0 else {}
    assert report.weights == told


@pytest.mark.parametrize(
    ("text", "expected"),
    [("{name} is long", 0.0), ("none is long", -1.0), ("none is longer than {n}", -1.0), ("{trace}: none", -1.0)],
)  # fmt: skip
def test_a_finding_that_says_no_value_of_a_row_weighs_less_than_any(
    tmp_path, make_trace, text, expected
):
    check(tmp_path, f'{{finding: "{text}", from: long}}')
    trace = make_trace(kernel=[{"ts": 0, "dur": 4, "name": "a"}])
    report = pasta.run(str(tmp_path / "tool.yaml"), trace=trace)
    assert list(report.weights.values()) == [expected]
