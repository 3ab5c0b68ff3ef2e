"""`sort` breaks ties by all remaining columns."""

from __future__ import annotations

import polars as pl

from pasta.pipeline.stages.sort import sort

ROWS = pl.LazyFrame({"k": [2, 1, None, 2], "name": ["b", "z", "q", "a"], "l": [[1], [2], [3], [4]]})


def test_ascending_with_nulls_last():
    assert sort(ROWS, by=["k"]).collect()["name"].to_list() == ["z", "a", "b", "q"]


def test_descending_keeps_ties_ascending_and_nulls_last():
    assert sort(ROWS, by=["k"], descending=True).collect()["name"].to_list() == ["a", "b", "z", "q"]
