"""YAML into a tool: every mistake is named with the path of its key."""

from __future__ import annotations

import pytest

from pasta.errors import ConfigError
from pasta.pipeline.config import load_config, parse_config
from pasta.yaml_text import read_yaml

GOOD = """
version: 1
tool: example
about: An example.
collect: cuda:calls,torch
inputs:
  kernels: {table: kernel}
  copies: {table: copy, optional: true, run: before}
parameters:
  top: {type: int, default: 20, about: rows}
  window: {type: duration, default: 10ms}
stages:
  named: {use: filter, from: kernels, where: dur > 0}
  both: {use: join, from: {left: named, right: copies}, on: [rank]}
report:
  - {finding: "{name}", from: named, when: dur > 1}
  - {table: both}
outputs: {parquet: [both]}
"""


def test_reads_everything():
    config = parse_config(read_yaml(GOOD))
    assert config.name == "example"
    assert config.inputs["kernels"].table == "kernel"
    assert config.inputs["copies"].optional
    assert config.inputs["copies"].run == "before"
    assert config.parameters["window"].default == 10_000_000
    assert config.stages["named"].sources == {0: "kernels"}
    assert config.stages["named"].arguments == {"where": "dur > 0"}
    assert config.stages["both"].sources == {"left": "named", "right": "copies"}
    assert [item.kind for item in config.report] == ["finding", "table"]
    assert config.parquet == ("both",)
    assert config.collect == "cuda:calls,torch"


@pytest.mark.parametrize(
    ("replace", "by", "message"),
    [
        ("version: 1", "version: 2", "version: expected 1, got 2"),
        ("tool: example\n", "", "tool: is missing"),
        ("about: An", "abuot: An", "abuot: unknown key. Did you mean 'about'?"),
        ("{table: kernel}", "{table: kernels}", "inputs.kernels.table: no table 'kernels'."),
        ("optional: true", "optional: 1", "inputs.copies.optional: expected true or false"),
        ("type: int", "type: integer", "parameters.top.type: no parameter type 'integer'"),
        ("default: 20", "default: many", "parameters.top.default: expected int, got 'many'"),
        (
            "default: 20",
            "default: 20, least: 21",
            "parameters.top.default: must be 21 or more, got 20",
        ),
        ("default: 20", "default: 20, least: one", "parameters.top.least: expected a number"),
        (
            "default: 20",
            "default: 20, most: 19",
            "parameters.top.default: must be 19 or less, got 20",
        ),
        ("default: 20", "default: 20, most: []", "parameters.top.most: expected a number"),
        (
            "default: 20",
            "default: 20, choices: [a]",
            "parameters.top.choices: only a parameter that",
        ),
        (
            "type: int, default: 20",
            "type: string, default: c, choices: [a, b]",
            "parameters.top.default: must be one of a, b; got 'c'",
        ),
        ("default: 10ms", "default: 10 parsecs", "parameters.window.default: expected a duration"),
        ("use: filter, from: kernels,", "use: filter,", "stages.named.from: needs the name"),
        ("use: filter, ", "", "stages.named.use: is missing"),
        ("{table: both}", "{tables: both}", "report[1]: expected one of finding"),
        ("{table: both}", "{table: both, colour: red}", "report[1].colour: unknown key"),
        (", from: named, when", ", when", "report[0].from: is missing"),
        ("[both]}", "both}", "outputs.parquet: expected a list, got 'both'"),
        ("stages:", "stages: []\nstages2:", "stages2: unknown key"),
    ],
)
def test_mistakes_are_named(replace, by, message):
    assert replace in GOOD
    with pytest.raises(ConfigError) as caught:
        parse_config(read_yaml(GOOD.replace(replace, by, 1)))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-8", 1e-8), ("-3E+2", -300.0), ("+1e3", 1000.0), ("1.5e3", 1500.0), (".5e1", 5.0), ("1.e1", 10.0), ("e.e1", "e.e1"), ("1e", "1e"), ("e5", "e5"), ("yes", "yes"), ("true", True)],
)  # fmt: skip
def test_numbers_and_truth_values_are_those_of_yaml_1_2(text, value):
    read = read_yaml(f"a: {text}")["a"]
    assert read == value
    assert type(read) is type(value)


def test_not_a_mapping():
    with pytest.raises(ConfigError, match="the file: expected a mapping"):
        parse_config(["a"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "not valid YAML"),
        ("version: 1\nversion: 1\n", "the key stands twice (line 2)"),
        ("tool: !!python/object/apply:os.system ['true']", "not valid YAML"),
        ("version: 3", "version: expected 1, got 3"),
    ],
)
def test_files_are_named(tmp_path, text, message):
    path = tmp_path / "tool.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_absent_and_binary_files(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "absent.yaml")
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(binary)
