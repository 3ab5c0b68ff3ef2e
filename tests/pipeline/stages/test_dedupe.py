"""`dedupe` keeps one defined row for each key, and its parts combine."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from pasta.pipeline.stages.dedupe import dedupe
from tests.pipeline.merging import assert_merges


def frame(rows):
    return pl.DataFrame(rows, schema={"k": pl.String, "ts": pl.Int64, "v": pl.Int64}, orient="row")


def test_first_in_order_then_by_the_rest():
    rows = frame([("a", 2, 1), ("a", 1, 9), ("b", 5, 5), ("a", 1, 4)]).lazy()
    assert dedupe(rows, by=["k"], order=["ts"]).collect().rows() == [("a", 1, 4), ("b", 5, 5)]


small = st.integers(0, 3)


@given(st.lists(st.tuples(st.sampled_from("ab"), small, small)), st.data())
def test_merge_law(rows, data):
    assert_merges("dedupe", frame(rows), {"by": ["k"], "order": ["ts"]}, data)
