"""`unpivot` makes rows of columns."""

from __future__ import annotations

import polars as pl
import pytest

from pasta.errors import ConfigError
from pasta.pipeline.stages.unpivot import unpivot

ROWS = pl.LazyFrame({"run": ["a", "b"], "read": [1, 2], "written": [3, None], "share": [0.5, 1.0]})


def test_each_row_comes_once_for_each_column():
    columns = {"in": "read", "out": "written"}
    found = unpivot(ROWS, columns=columns, label="way", value="bytes").collect()
    assert found.select("run", "way", "bytes").rows() == [
        ("a", "in", 1), ("b", "in", 2), ("a", "out", 3), ("b", "out", None)
    ]  # fmt: skip
    assert found.columns == ["run", "read", "written", "share", "bytes", "way"]


def test_columns_of_the_new_names_are_replaced():
    found = unpivot(ROWS, columns={"in": "read", "out": "written"}, label="run", value="read")
    assert found.collect().rows() == [
        ("in", 1, 3, 0.5), ("in", 2, None, 1.0), ("out", 3, 3, 0.5), ("out", None, None, 1.0)
    ]  # fmt: skip


def test_columns_must_be_there_and_of_one_type():
    with pytest.raises(ConfigError, match="columns: no column 'red'"):
        unpivot(ROWS, columns={"in": "red"}, label="way", value="bytes")
    with pytest.raises(ConfigError, match="'read' is Int64, 'share' is Float64; cast some"):
        unpivot(ROWS, columns={"in": "read", "part": "share"}, label="way", value="bytes")
    with pytest.raises(ConfigError, match="at least one column"):
        unpivot(ROWS, columns={}, label="way", value="bytes")
