"""`top` finds extremes, and its parts combine."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.pipeline.stages.top import top
from tests.pipeline.merging import assert_merges


def frame(rows):
    return pl.DataFrame(rows, schema={"v": pl.Int64, "name": pl.String}, orient="row")


def test_largest_first_ties_by_name_nulls_last():
    rows = frame([(1, "a"), (None, "b"), (5, "d"), (5, "c")]).lazy()
    assert top(rows, by=["v"], n=3).collect().rows() == [(5, "c"), (5, "d"), (1, "a")]
    assert top(rows, by=["v"], n=2, smallest=True).collect().rows() == [(1, "a"), (5, "c")]


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize(("smallest", "first"), [(False, [3, 2]), (True, [1, 2])])
def test_rows_of_one_column(engine, smallest, first):
    rows = pl.LazyFrame({"v": [3, None, 1, 2]})
    found = top(rows, by=["v"], n=2, smallest=smallest).collect(engine=engine)
    assert found["v"].to_list() == first


@given(st.lists(st.tuples(st.none() | st.integers(-3, 3), st.sampled_from("abc"))), st.data())
def test_merge_law(rows, data):
    assert_merges("top", frame(rows), {"by": ["v"], "n": 3, "smallest": False}, data)
