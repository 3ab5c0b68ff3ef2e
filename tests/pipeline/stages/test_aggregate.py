"""`aggregate` measures groups, and what can be merged merges."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.pipeline.expressions import parse_measure
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


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.none() | st.integers(-9, 9))),
    st.sampled_from([[], ["k"]]),
    st.data(),
)
def test_merge_law(rows, by, data):
    wanted = measures(
        n="count(*)", c="count(v)", s="sum(v)", low="min(v)", high="max(v)", mean="avg(v)"
    )
    assert_merges("aggregate", frame(rows), {"by": by, "measures": wanted}, data)
