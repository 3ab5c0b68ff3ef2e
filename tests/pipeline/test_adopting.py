"""A tool takes parameters and findings of those that it includes as its own."""

from __future__ import annotations

import pytest

from pasta import api
from pasta.errors import ConfigError

PART = """{version: 1, tool: part, about: A., inputs: {spans: span},
parameters: {least: {default: 7, least: 0, about: ns at least}, other: {default: 1}},
stages: {long: {use: filter, from: spans, where: dur >= $least},
         sums: {use: aggregate, from: long, measures: {spans: count(*), ns: sum(dur)}}},
findings: [{finding: "{spans} spans", from: sums}, {finding: "{name} of {least} ns or more", from: long, by: dur}]}
"""
OTHER = "{version: 1, tool: other, about: A., parameters: {least: {default: 9}}}"
MIDDLE = "{version: 1, tool: middle, about: A., include: {of: {tool: part.yaml, adopt: [least]}}}"


def files(folder, tool, **others):
    """Write a tool and what it includes; return its path."""
    for name, text in {
        "part": PART,
        "other": OTHER,
        "middle": MIDDLE,
        **others,
        "tool": tool,
    }.items():
        (folder / f"{name}.yaml").write_text(text)
    return str(folder / "tool.yaml")


def test_parameters_and_findings_come_through_two_includes(tmp_path, make_trace):
    tool = files(
        tmp_path,
        "{version: 1, tool: t, about: A., parameters: {mine: {default: a}},"
        " include: {at: {tool: middle.yaml, adopt: [least]}},"
        " report: [{findings: at.of}, {facts: at.of.sums}]}",
    )
    config, _ = api.check(tool)
    assert list(config.parameters) == ["least", "mine"]
    assert (config.parameters["least"].least, config.parameters["least"].about) == (
        0,
        "ns at least",
    )
    span = {"level": "operator", "tid": 1, "ts": 0, "span_id": 1}
    trace = make_trace(
        span=[{**span, "name": "short", "dur": 8}, {**span, "name": "long", "dur": 30}]
    )
    report = api.run(tool, trace)
    assert report.findings == ["2 spans", "short of 7 ns or more", "long of 7 ns or more"]
    assert api.run(tool, trace, least=10).facts == {"spans": 1, "ns": 30}
    with pytest.raises(ConfigError, match="least: must be 0 or more"):
        api.run(tool, trace, least=-1)


HEAD = "{version: 1, tool: t, about: A., "
MISTAKES = {
    HEAD + "include: {of: part.yaml}, report: [{findings: of}]}": (
        r"include.of.findings\[1\]: names the parameter 'least', which may have another value here: adopt it"
    ),
    HEAD + "include: {at: middle.yaml}, report: [{findings: at.of}]}": (
        r"include.at.of.findings\[1\]: names the parameter 'least'"
    ),
    HEAD + "include: {of: {tool: part.yaml, adopt: [least], parameters: {least: 4}}}}": (
        "include.of.parameters.least: the tool adopts this parameter too; leave it out here or there"
    ),
    HEAD + "include: {of: {tool: part.yaml, adopt: [least]},"
    " at: {tool: other.yaml, adopt: [least]}}}": (
        r"include.at.adopt\[0\]: another include has a parameter 'least' with another default"
    ),
    HEAD + "include: {of: {tool: part.yaml, adopt: [last]}}}": (
        r"include.of.adopt\[0\]: 'part' has no parameter 'last'. Did you mean 'least'"
    ),
    HEAD + "parameters: {least: {default: 1}}, include: {of: {tool: part.yaml, adopt: [least]}}}": (
        r"include.of.adopt\[0\]: the tool has a parameter 'least' itself; hand it on under 'parameters'"
    ),
    HEAD + "include: {of: part.yaml}, report: [{findings: off}]}": (
        r"report\[0\].findings: nothing is included as 'off'. Did you mean 'of'"
    ),
    HEAD + "include: {of: middle.yaml}, report: [{findings: of}]}": (
        r"report\[0\].findings: 'middle' has no findings for others"
    ),
    HEAD + "inputs: {spans: span}, findings: [{finding: '{nam}', from: spans}]}": (
        r"findings\[0\].finding: no column or parameter 'nam'"
    ),
    HEAD + "findings: [{finding: a, from: spans}]}": (
        r"findings\[0\].from: no stage or input 'spans'"
    ),
    HEAD + "include: {of: {tool: circle.yaml, adopt: [a]}}}": "tools include each other in a circle",
}  # fmt: skip


@pytest.mark.parametrize("tool", MISTAKES)
def test_mistakes_are_named_where_they_stand(tmp_path, tool):
    circle = "{version: 1, tool: c, about: A., include: {of: {tool: circle.yaml, adopt: [a]}}}"
    with pytest.raises(ConfigError, match=MISTAKES[tool]):
        api.check(files(tmp_path, tool, circle=circle))


def test_the_parameter_top_may_be_that_of_an_included_tool(tmp_path):
    part = PART.replace("other: {default: 1}", "top: 3")
    entry = "report: [{table: x, from: of.long, by: dur, n: $top}]}"
    tool = HEAD + "include: {of: {tool: part.yaml, adopt: [top]}}, " + entry
    config, _ = api.check(files(tmp_path, tool, part=part))
    assert config.parameters["top"].default == 3


def test_findings_for_others_may_say_top(tmp_path):
    part = PART.replace("from: long, by: dur}", "from: long, by: dur, n: $top}")
    config, _ = api.check(files(tmp_path, part))
    assert "top" in config.parameters
