"""`aggregate` measures groups, and what can be merged merges."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.errors import ConfigError
from pasta.pipeline.expressions import parse_measure
from pasta.pipeline.stage import STAGES
from pasta.pipeline.stages.aggregate import aggregate
from tests.pipeline.merging import assert_merges


def frame(rows):
    return pl.DataFrame(rows, schema={"k": pl.String, "v": pl.Int64}, orient="row")


def measures(**texts):
    return {name: parse_measure(text, "p", {}) for name, text in texts.items()}


ROWS = frame([("b", 5), ("a", 1), ("b", None), (None, 4), ("a", 3)]).lazy()


def test_groups_are_sorted_and_nulls_are_a_group():
    found = aggregate(ROWS, by=["k"], measures=measures(n="count(*)", s="sum(v)", m="avg(v)"))
    assert found.collect().rows() == [(None, 1, 4, 4.0), ("a", 2, 4, 2.0), ("b", 2, 5, 5.0)]


def test_without_by_one_row():
    found = aggregate(ROWS, measures=measures(most="max(v)", names={"n_unique": "k"}))
    assert found.collect().rows() == [(5, 3)]


def test_ratio_of_aggregates_is_whole_and_exact():
    found = aggregate(ROWS, measures=measures(x="sum(v) / count(*)"))
    assert found.collect().item() == pytest.approx(13 / 5)


LARGE = pl.LazyFrame(
    {"k": ["a", "b"] * 30, "ts": [2**58] * 60, "n": [2**31] * 60},
    schema_overrides={"n": pl.UInt32},
)


@pytest.mark.parametrize("by", [[], ["k"]])
@pytest.mark.parametrize(
    "text",
    ["sum(ts)", "sum(-ts)", "sum(ts) / count(*)", "coalesce(sum(case when ts > 0 then ts end), 0)", "sum(n)"],
)  # fmt: skip
def test_a_sum_that_does_not_fit_its_type_fails(text, by):
    rows = LARGE if by else LARGE.head(40)
    with pytest.raises(pl.exceptions.InvalidOperationError, match="too large for"):
        aggregate(pl.concat([rows, rows]), by=by, measures=measures(x=text)).collect()


def test_sums_that_fit_are_exact_and_means_do_not_overflow():
    wanted = measures(ts="sum(ts - 1)", n="sum(n::bigint)", f="sum(ts::double)", m="avg(ts)")
    found = aggregate(LARGE.head(31), measures=wanted).collect().row(0)
    assert found == (31 * (2**58 - 1), 31 * 2**31, 31.0 * 2**58, 2.0**58)
    found = aggregate(LARGE, measures=measures(m="avg(ts)", f="sum(ts::double)")).collect().row(0)
    assert found == (2.0**58, 60.0 * 2**58)


def test_what_measures_have_in_common_is_computed_once():
    texts = measures(
        n="count(*)", s="sum(case when v > 1 then 1 else 0 end)", all="sum(coalesce(v, 0))"
    )
    rows = ROWS.with_columns(pl.col("v").cast(pl.Int32))
    found = aggregate(rows, by=["k"], measures=texts)
    plan = found.explain()
    assert (plan.count("len()"), plan.count(".count()"), plan.count(".sum()")) == (1, 0, 2)
    assert found.collect().rows() == [(None, 1, 1, 4), ("a", 2, 1, 4), ("b", 2, 1, 5)]
    assert found.collect_schema().dtypes() == [pl.String, pl.Int64, pl.Int32, pl.Int32]
    assert aggregate(rows.head(0), measures=texts).collect().rows() == [(0, None, None)]


@pytest.mark.parametrize("by", [[], ["k"]])
def test_a_count_of_what_is_aggregated_is_not_one_of_rows(by):
    texts = ["count(case when max(v) > 1 then 1 else 0 end)", "count(coalesce(max(v), 0))"]
    wanted = measures(**{f"m{number}": text for number, text in enumerate(texts)})
    found = aggregate(ROWS, by=by, measures=wanted).collect()
    assert set(found.select(list(wanted)).rows()) == {(1, 1)}


@pytest.mark.parametrize("text", ["count(coalesce(typo, 0))", "sum(coalesce(typo, 0))"])
def test_a_column_that_is_not_there_is_told_though_nulls_do_not_matter(text):
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match="typo"):
        aggregate(ROWS, by=["k"], measures=measures(x=text)).collect_schema()


def test_a_measure_named_like_a_key_is_told():
    with pytest.raises(ConfigError, match=r"^measures.k: 'by' has this name"):
        aggregate(ROWS, by=["k"], measures=measures(k="sum(v)"))


def test_no_name_is_lost_to_what_measures_are_made_of():
    texts = {"s, part 0": "avg(v)", "s": "max(v)"}
    found = aggregate(ROWS, by=["k"], measures=measures(**texts)).collect()
    assert found.rows() == [(None, 4.0, 4), ("a", 2.0, 3), ("b", 5.0, 5)]
    keyed = ROWS.rename({"k": "s, part 0"})
    found = aggregate(keyed, by=["s, part 0"], measures=measures(s="sum(v)")).collect()
    assert found.rows() == [(None, 4), ("a", 4), ("b", 5)]


def test_parts_that_fit_alone_may_not_fit_together():
    merge = STAGES.get("aggregate").merge
    given = {"by": [], "measures": measures(x="sum(ts)")}
    states = [merge.partial(part, **given) for part in (LARGE.head(30), LARGE.tail(30))]
    assert states[0].collect().row(0) == (30, 30 * 2**58)
    with pytest.raises(pl.exceptions.InvalidOperationError, match="too large for Int64"):
        merge.combine(pl.concat(states), **given).collect()


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.none() | st.integers(-9, 9))),
    st.sampled_from([[], ["k"]]),
    st.data(),
)
def test_merge_law(rows, by, data):
    wanted = measures(
        n="count(*)", c="count(v)", s="sum(v)", low="min(v)", high="max(v)", mean="avg(v)",
        missing="count(*) - count(v)", total="coalesce(sum(v), 0)", width="max(v) - min(v)",
        ratio="sum(v) / nullif(count(v), 0) + sum(v)", sign="case when max(v) > 0 then 'Len' else 'no' end",
    )  # fmt: skip
    assert_merges("aggregate", frame(rows), {"by": by, "measures": wanted}, data)
