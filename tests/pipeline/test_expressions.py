"""Expressions: what they compute, what they refuse, how measures merge."""

from __future__ import annotations

import subprocess
import sys

import polars as pl
import pytest

from pasta.errors import ConfigError
from pasta.pipeline.expressions import is_row_wise, parse, parse_measure
from pasta.pipeline.sql_text import MAXIMUM_DEPTH, substitute

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
        ("(select 1)", "a query inside"),
        ("dur in (select dur)", "numbers and texts only"),
        ("dur in (ts, 1)", "numbers and texts only"),
        ("lpad(name, 100000000, 'x')", "no function 'lpad'"),
        ("rpad(name, 100000000, 'x')", "no function 'rpad'"),
        ("repeat(name, 1000000)", "no function 'repeat'"),
        ("array_agg(dur)", "no function 'array_agg'"),
        ("medain(dur)", "Did you mean 'median'"),
        ('"corr"(dur, ts)', "no function"),
        ("corr/**/(dur, ts)", "comments"),
        ("dur --ts", "comments"),
        ("`corr`(dur, ts)", "'`' is not allowed"),
        ("name = 'x in (' || corr(dur, ts) || ')'", "no function 'corr'"),
        ("[dur]", "'[' is not allowed"),
        ('"^.*$"', "Selector"),
        ('"*"', "Selector"),
        ("name like 'a%'", "LIKE does not run on GPUs"),
        ("case name when 'a' then 1 end", "each condition in full"),
        ("date '2020-01-01'", "a cast to"),
        ("interval '1 day'", "a Duration literal"),
        ("timestamp '2020-01-01 00:00:00'", "Strptime"),
        ("x'ff'", "texts with x in front"),
        ("0x10", "a Binary literal"),
        ("cast(dur as date)", 'a cast to "Date"'),
        ("cast(dur as blob)", 'a cast to "Binary"'),
        ("cast(dur as decimal(10, 2))", "no function 'decimal'"),
        ("cast(dur as hugeint)", 'a cast to "Int128"'),
        ("dur as other", "Alias"),
        ("name.field", "StructExpr"),
        ("replace(name, 'a', 'aaaaaaaaaa')", "replace with a text that is longer"),
        ("replace(name, 'a', name)", "replace with a text that is longer"),
        ("last_value(dur) over (order by ts)", "no function 'last_value'"),
        ("9" * 45, "cannot read"),
        ("dur >", "cannot read"),
        ("dur + " * 400 + "dur", "at most 2000"),
    ],
)
def test_refused(text, names):
    with pytest.raises(ConfigError) as caught:
        parse(text, "stages.a.where", {})
    assert names in str(caught.value)
    assert str(caught.value).startswith("stages.a.where: ")


@pytest.mark.parametrize(
    "text",
    [
        "+".join(["dur"] * 480),
        "(" * 30 + "dur" + ")" * 30,
        "(" * 900 + "dur" + ")" * 900,
        "nullif(" * 40 + "dur" + ", 0)" * 40,
        "sum(" * 30 + "dur" + ")" * 30,
        "dur" + " between 0 and 1" * 60,
        "case when " * 60 + "done" + " then true end" * 60,
        "replace(" * 40 + "name" + ", 'a', 'aaaaaaaaaa')" * 40,
        "not " * 150 + "done",
        "- " * 150 + "dur",
    ],
)
def test_nesting_is_refused_in_one_line(text):
    with pytest.raises(ConfigError) as caught:
        parse(text, "p", {})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("opening", "closing", "times"),
    [
        ("(", ")", MAXIMUM_DEPTH),
        ("abs(", ")", MAXIMUM_DEPTH),
        ("sum(", ")", 8),
        ("nullif(", ", dur)", 8),
        ("", " between 0 and 1", 8),
        ("", "::bigint", 60),
        ("", " is null", 60),
        ("", " + dur", 90),
        ("not ", "", 45),
    ],
)
def test_the_deepest_that_is_allowed_neither_crashes_nor_grows(opening, closing, times):
    text = opening * times + "dur" + closing * times
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        "from pasta.pipeline.expressions import parse\n"
        f"print(len(parse({text!r}, 'p', {{}}).meta.serialize(format='json')))"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True
    )
    assert int(ran.stdout) < 200_000


def test_not_an_expression():
    with pytest.raises(ConfigError, match="expected an expression"):
        parse(["dur"], "p", {})


def test_parameters_are_escaped_literals():
    assert substitute("a = $name and b > $n", "p", {"name": "it's", "n": 1e-7}) == (
        "a = 'it''s' and b > 1.0e-07"
    )
    assert substitute("a = '$name'", "p", {}) == "a = '$name'"
    assert value("name = $wanted", wanted="x' or 'a' = 'a") == [False] * 4
    with pytest.raises(ConfigError, match="no parameter 'top'; this tool has: n"):
        substitute("$top", "p", {"n": 1})


@pytest.mark.parametrize("number", [1e300, 1e-7, 2.5, -1.5e-9, 1e16, -7, 2**62, 0])
def test_numbers_come_through_exactly(number):
    assert value("$n", n=number) == [number]
    assert value("2 -$n", n=number) == [2 - number]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 10**45, -(2**63) - 1])
def test_numbers_that_no_column_can_hold(number):
    with pytest.raises(ConfigError, match=r"^parameters\.f: "):
        parse("dur > $f", "p", {"f": number})
    with pytest.raises(ConfigError, match=r"^p: "):
        parse(number, "p", {})
    assert value("dur", f=number) == [40, 10, 30, None]


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
        ("sum(dur) + count(*)", 84, True),
        ("sum(dur) / (count(*))", 20.0, True),
        ("median(dur)", 30, False),
        ("count(distinct name)", 3, False),
        ({"n_unique": "name"}, 3, False),
        ({"quantile": ["dur", 0.5]}, 30.0, False),
        ({"quantile": ["dur", "$half"]}, 30.0, False),
        ("sum(case when dur > 20 then dur else 0 end)", 70, True),
        ("max(dur) - min(dur) + 1", 31, True),
        ("sum(dur) / avg(dur)", 3.0, False),
        ("count(distinct name) + count(*)", 7, False),
    ],
)
def test_measure(measure, expected, mergeable):
    found = parse_measure(measure, "p", {"half": 0.5})
    assert ROWS.select(found.expression.alias("x")).item() == pytest.approx(expected)
    assert found.mergeable is mergeable


def test_measure_of_nothing_is_unknown_not_zero():
    found = parse_measure("sum(dur)", "p", {})
    assert ROWS.filter(name="relu").select(found.expression.alias("x")).item() is None


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        ("dur", "no aggregate"),
        ("max(1)", r"aggregate of a constant; for rows, count\(\*\)"),
        ("sum(dur) + max(case when true then 1 end)", "aggregate of a constant"),
        ({"mode": "dur"}, "no measure 'mode'"),
        ({"quantile": "dur"}, r"expected \[column, q\]"),
        ({"quantile": ["dur", 2]}, "from 0 to 1"),
        ({"quantile": ["dur", True]}, "from 0 to 1"),
        ({"quantile": ["dur", "share"]}, "from 0 to 1, got 'share'"),
        ({"quantile": ["dur", "$many"]}, r"got 7 \(the value of parameter 'many'\)"),
        ({"quantile": ["dur", "$none"]}, "no parameter 'none'"),
        ("dur / sum(dur)", r"column 'dur' of 'dur / sum\(dur\)' is in no aggregate"),
        ("sum(dur) + ts", "column 'ts'"),
        ("case when name = 'a' then sum(dur) end", "column 'name'"),
        ("sum(dur) over (partition by name)", "window"),
        ({"n_unique": "dur", "quantile": ["dur", 0.1]}, "expected one measure"),
    ],
)
def test_wrong_measure(measure, message):
    with pytest.raises(ConfigError, match=message):
        parse_measure(measure, "stages.a.measures.x", {"share": 0.5, "many": 7})


def test_a_text_is_read_once_and_its_mistake_told_where_it_stands(monkeypatch):
    read = []
    reader = pl.sql_expr
    monkeypatch.setattr(pl, "sql_expr", lambda text: (read.append(text), reader(text))[1])
    for path in ("a", "b"):
        parse("dur + 12345", path, {})
        with pytest.raises(ConfigError, match=f"^{path}: cannot read expression"):
            parse("dur +", path, {})
    assert read == ["dur + 12345", "dur +", "dur +"]
