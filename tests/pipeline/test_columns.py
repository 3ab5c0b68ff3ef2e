"""The way between frames and arrays."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.errors import ConfigError
from pasta.pipeline.columns import extents, frame, number_groups, numbers, process_key, require

KEYS = st.lists(
    st.tuples(st.none() | st.integers(0, 2), st.none() | st.sampled_from("ab"), st.integers(5, 6)),
    max_size=12,
)
SCHEMA = {"device": pl.Int32, "name": pl.String, "rank": pl.Int64}


def nulls_first(key):
    return tuple((value is not None, value) for value in key)


@given(KEYS, KEYS, st.permutations(list(SCHEMA)))
def test_groups_are_numbered_over_all_inputs_in_order(left, right, by):
    frames = [pl.DataFrame(rows, schema=SCHEMA, orient="row") for rows in (left, right)]
    keys, groups = number_groups(by, *frames)
    rows = [table.select(by).rows() for table in frames]
    assert keys.rows() == sorted({*rows[0], *rows[1]}, key=nulls_first)
    assert keys.schema == {name: SCHEMA[name] for name in by}
    for table, numbered in zip(rows, groups, strict=True):
        assert [keys.row(group) for group in numbered.tolist()] == table


def test_without_keys_there_is_one_group():
    keys, (groups,) = number_groups([], pl.DataFrame({"ts": [5, 6]}))
    assert groups.tolist() == [0, 0]
    assert frame(keys, groups, {"ts": np.array([5, 6])}).to_dict(as_series=False) == {"ts": [5, 6]}


def test_the_process_is_told_by_what_all_inputs_have():
    one = pl.DataFrame(schema=["trace", "rank", "pid", "tid"])
    assert process_key(one, one.lazy(), within=["tid"]) == ["trace", "rank", "pid", "tid"]
    assert process_key(one, one.drop("trace")) == ["rank", "pid"]


def test_numbers_are_wide_and_have_no_nulls():
    rows = pl.DataFrame({"n": [1, None], "x": [0.5, None], "name": ["a", "b"]})
    assert numbers(rows.cast({"n": pl.UInt8}), "n").tolist() == [1, 0]
    assert numbers(rows, "x").tolist() == [0.5, 0.0]
    with pytest.raises(ConfigError, match="column 'name' is String"):
        numbers(rows, "name")


def test_an_unfinished_span_is_an_instant():
    starts, ends = extents(pl.DataFrame({"ts": [3, 4], "dur": [7, None]}))
    assert starts.tolist() == [3, 4]
    assert ends.tolist() == [10, 4]


def test_require_names_the_input_and_the_nearest_column():
    with pytest.raises(ConfigError, match=r"from\.left: needs column 'durr'\. Did you mean 'dur'"):
        require(pl.LazyFrame(schema=["ts", "dur"]), ["ts", "durr"], "left")
