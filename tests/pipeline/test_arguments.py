"""Arguments: what YAML's values become, where `$name` stands for a parameter, what is refused."""

from __future__ import annotations

import pickle
from typing import Literal

import polars as pl
import pytest

from pasta.errors import ConfigError
from pasta.pipeline.arguments import Arguments, Bytes, Nanoseconds, coerce, parameter_value

PARAMETERS = {"n": 7, "name": "gemm", "share": 0.5, "odd": "$n"}


@pytest.mark.parametrize(
    ("value", "annotation", "expected"),
    [
        ("$n", int, 7),
        ("$n", float, 7.0),
        ("$name", str, "gemm"),
        ("$$n", str, "$n"),
        ("$$$n", str, "$$n"),
        ("$odd", str, "$n"),
        ("$odd", str | None, "$n"),
        ("$odd", list[str], ["$n"]),
        (["$name", "$$name", "relu"], list[str], ["gemm", "$name", "relu"]),
        ({"a": ["$n", 1], "b": "$n"}, dict[str, list[int]], {"a": [7, 1], "b": [7]}),
        ({"a": {"b": "$name"}}, dict[str, dict[str, str]], {"a": {"b": "gemm"}}),
        ("$$n", list[str] | dict[str, str], ["$n"]),
        (None, int | None, None),
        ("2us", Nanoseconds, 2000),
        ("1.5KiB", Bytes, 1536),
        ("$name", Literal["gemm", "relu"], "gemm"),
    ],
)
def test_parameters_at_any_depth(value, annotation, expected):
    assert coerce(value, annotation, "p", PARAMETERS) == expected


@pytest.mark.parametrize(
    ("value", "annotation", "message"),
    [
        ("$none", int, "p: no parameter 'none'. Known: n, name, odd, share."),
        (["$name"], list[int], "p[0]: expected int, got 'gemm' (parameter 'name')"),
        ({"a": "$name"}, dict[str, int], "p.a: expected int, got 'gemm' (parameter 'name')"),
        (2.0, int, "p: expected int, got 2.0"),
        (True, int, "p: expected int, got True"),
        ([[["x"] * 99] * 99] * 99, int, "p: expected int, got [[["),
        ("999999999h", Nanoseconds, "p: an integer of 72 bits does not fit in 64"),
        ("9" * 5000 + "h", Nanoseconds, "p: expected a duration"),
        ("1.5ns", Nanoseconds, "p: '1.5ns' is not a whole number of ns"),
        ("0.5", Bytes, "p: '0.5' is not a whole number of B"),
        (float("nan"), float, "p: expected a finite number, got nan"),
    ],
)
def test_what_does_not_fit(value, annotation, message):
    with pytest.raises(ConfigError) as caught:
        coerce(value, annotation, "p", PARAMETERS)
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 300


def test_numbers_that_python_turns_into_no_text():
    with pytest.raises(ConfigError, match="p: an integer of 20001 bits does not fit in 64"):
        coerce(16**5000, int, "p", {})
    with pytest.raises(ConfigError, match="p: expected str, got a number of thousands of digits"):
        coerce(16**5000, str, "p", {})


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e400", float("nan"), float("inf")])
def test_parameters_are_finite(text):
    with pytest.raises(ConfigError, match=r"^parameters\.f: expected a finite number"):
        parameter_value(text, "float", "parameters.f")


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [("-3", "int", -3), ("2.5", "float", 2.5), ("TRUE", "bool", True), ("3ms", "duration", 3 * 10**6)],
)  # fmt: skip
def test_parameters_from_text(value, kind, expected):
    assert parameter_value(value, kind, "parameters.f") == expected


def test_what_is_derived_from_arguments_is_not_pickled():
    arguments = Arguments(where=pl.col("dur") > 5, by=["name"])
    before = pickle.dumps(arguments)
    assert arguments.identity == Arguments(where=pl.col("dur") > 5, by=["name"]).identity
    assert arguments.identity != Arguments(where=pl.col("dur") > 6, by=["name"]).identity
    assert pickle.dumps(arguments) == before
    assert pickle.loads(before).identity == arguments.identity
