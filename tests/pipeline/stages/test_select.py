"""`select` keeps, orders and renames."""

from __future__ import annotations

import polars as pl
import pytest

from pasta.pipeline.stages.select import select

ROWS = pl.LazyFrame({"a": [1], "b": [2], "c": [3]})


@pytest.mark.parametrize(
    ("columns", "expected"),
    [(["c", "a"], {"c": 3, "a": 1}), ({"x": "b", "a": "a"}, {"x": 2, "a": 1})],
)
def test_columns(columns, expected):
    found = select(ROWS, columns=columns).collect()
    assert found.to_dicts() == [expected]
    assert found.columns == list(expected)
