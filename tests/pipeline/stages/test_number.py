"""`number` numbers combinations of keys in their order, ids of 0 and nulls too."""

import polars as pl
import pytest

from pasta.errors import ConfigError
from pasta.pipeline.stages.number import number


def test_equal_keys_have_one_number():
    rows = pl.DataFrame(
        {"name": ["b", None, "a", "b"], "id": [0, 3, 0, 0]}, schema_overrides={"id": pl.UInt64}
    )
    found = number(rows, by=["name", "id"], column="place")
    assert found["place"].to_list() == [3, 1, 2, 3]
    assert found.select("name", "id").equals(rows)


def test_no_keys_are_a_mistake():
    with pytest.raises(ConfigError, match="at least one column"):
        number(pl.DataFrame({"a": [1]}), by=[], column="place")
