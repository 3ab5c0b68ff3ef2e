"""The stage `granules`."""

from __future__ import annotations

import polars as pl
import pytest

from pasta.errors import ConfigError
from pasta.pipeline.stages.granules import granules


def rows(*ranges):
    columns = {"address": pl.UInt64, "bytes": pl.Int64}
    return pl.LazyFrame(ranges, schema=columns, orient="row").with_row_index("row")


def test_a_range_is_repeated_for_each_granule_it_reaches_into():
    found = granules(rows((0, 4), (30, 4), (64, 64), (31, 34)), size=32, column="sector").collect()
    assert found.select("row", "sector").rows() == [
        (0, 0),
        (1, 0),
        (1, 1),
        (2, 2),
        (2, 3),
        (3, 0),
        (3, 1),
        (3, 2),
    ]


def test_empty_and_unknown_ranges_are_left_out():
    found = granules(rows((5, 0), (None, 4), (5, None), (5, 1)), size=4).collect()
    assert found.select("row", "granule").rows() == [(3, 1)]


def test_a_size_is_at_least_a_byte():
    with pytest.raises(ConfigError, match="must be 1 byte or more, got 0"):
        granules(rows((0, 4)), size=0)
