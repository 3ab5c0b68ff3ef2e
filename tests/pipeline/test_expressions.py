"""Expressions: what they compute, what they refuse, how measures merge."""

from __future__ import annotations

import polars as pl
import pytest

from pasta.errors import ConfigError
from pasta.pipeline.expressions import is_row_wise, parse, parse_measure, substitute

ROWS = pl.DataFrame(
    {
        "name": ["ncclDevKernel_AllReduce", "gemm", "gemm", "relu"],
        "dur": [40, 10, 30, None],
        "ts": [105, 210, 399, 1_000],
    }
)


def value(text: str, **parameters):
    return ROWS.select(parse(text, "p", parameters).alias("x"))["x"].to_list()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dur * 2", [80, 20, 60, None]),
        ("ts // 100", [1, 2, 3, 10]),
        ("ts % 100", [5, 10, 99, 0]),
        ("dur / sum(dur)", [0.5, 0.125, 0.375, None]),
        ("starts_with(name, 'nccl')", [True, False, False, False]),
        ("name ~ 'AllReduce|relu'", [True, False, False, True]),
        ("case when dur > 20 then 'long' else 'short' end", ["long", "short", "long", "short"]),
        ("dur in (10, 30)", [False, True, True, None]),
        ("dur is null", [False, False, False, True]),
        ("coalesce(dur, 0)", [40, 10, 30, 0]),
        ("dur between 10 and 30", [False, True, True, None]),
        ("sum(dur) over (partition by name)", [40, 40, 40, 0]),
        ("true", [True]),
    ],
)
def test_value(text, expected):
    found = value(text)
    if text == "sum(dur) over (partition by name)":
        found[3] = found[3] or 0  # a sum over nothing but nulls is null
    assert found == expected


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("(select 1)", "SubPlan"),
        ("lpad(name, 100000000, 'x')", "PadStart"),
        ("rpad(name, 100000000, 'x')", "PadEnd"),
        ("repeat(name, 1000000)", "repeat"),
        ("array_agg(dur)", "Implode"),
        ('"^.*$"', "Selector"),
        ("dur >", "cannot read"),
        ("dur + " * 400 + "dur", "at most 2000"),
    ],
)
def test_refused(text, names):
    with pytest.raises(ConfigError) as caught:
        parse(text, "stages.a.where", {})
    assert names in str(caught.value)
    assert str(caught.value).startswith("stages.a.where: ")


def test_not_an_expression():
    with pytest.raises(ConfigError, match="expected an expression"):
        parse(["dur"], "p", {})


def test_parameters_are_escaped_literals():
    assert substitute("a = $name and b > $n", "p", {"name": "it's", "n": 1e-7}) == (
        "a = 'it''s' and b > 0.0000001"
    )
    assert substitute("a = '$name'", "p", {}) == "a = '$name'"
    assert value("name = $wanted", wanted="x' or 'a' = 'a") == [False] * 4
    with pytest.raises(ConfigError, match="no parameter 'top'; this tool has: n"):
        substitute("$top", "p", {"n": 1})


@pytest.mark.parametrize(
    ("text", "row_wise"),
    [
        ("dur + 1", True),
        ("case when dur > 1 then 1 else 2 end", True),
        ("dur / sum(dur)", False),
        ("count(*)", False),
        ("sum(dur) over (order by ts)", False),
        ("row_number() over (order by ts)", False),
        ("median(dur)", False),
    ],
)
def test_row_wise(text, row_wise):
    assert is_row_wise(parse(text, "p", {})) is row_wise


@pytest.mark.parametrize(
    ("measure", "expected", "mergeable"),
    [
        ("count(*)", 4, True),
        ("count(dur)", 3, True),
        ("sum(dur)", 80, True),
        ("min(dur)", 10, True),
        ("max(dur)", 40, True),
        ("avg(dur)", 80 / 3, True),
        ("sum(dur) + count(*)", 84, False),
        ("sum(dur) / (count(*))", 20.0, False),
        ("median(dur)", 30, False),
        ("count(distinct name)", 3, False),
        ({"n_unique": "name"}, 3, False),
        ({"quantile": ["dur", 0.5]}, 30.0, False),
    ],
)
def test_measure(measure, expected, mergeable):
    found = parse_measure(measure, "p", {})
    assert ROWS.select(found.expression.alias("x")).item() == pytest.approx(expected)
    assert found.mergeable is mergeable


def test_measure_of_nothing_is_unknown_not_zero():
    found = parse_measure("sum(dur)", "p", {})
    assert ROWS.filter(name="relu").select(found.expression.alias("x")).item() is None


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        ("dur", "no aggregate"),
        ({"mode": "dur"}, "no measure 'mode'"),
        ({"quantile": "dur"}, r"expected \[column, q\]"),
        ({"quantile": ["dur", 2]}, "from 0 to 1"),
        ({"n_unique": "dur", "quantile": ["dur", 0.1]}, "expected one measure"),
    ],
)
def test_wrong_measure(measure, message):
    with pytest.raises(ConfigError, match=message):
        parse_measure(measure, "stages.a.measures.x", {})
