"""`explode` gives a row for each element of a list."""

from __future__ import annotations

import polars as pl
import pytest

from pasta.errors import ConfigError
from pasta.pipeline.stages.explode import explode

ROWS = pl.LazyFrame(
    {"rank": [0, 1, 2, 3], "members": [[5, 7], None, [], [None, 5]]},
    schema_overrides={"members": pl.List(pl.Int64)},
)


def test_elements_in_order_and_nothing_of_nulls_and_empty_lists():
    found = explode(ROWS, column="members").collect()
    assert found.rows() == [(0, 5), (0, 7), (3, 5)]
    assert found.schema == {"rank": pl.Int64, "members": pl.Int64}


def test_what_is_no_list_is_refused():
    with pytest.raises(ConfigError, match="column: 'rank' is Int64; expected a list"):
        explode(ROWS, column="rank")
    with pytest.raises(ConfigError, match="column: no column 'member'"):
        explode(ROWS, column="member")
