"""The way between frames and arrays."""

from __future__ import annotations

from unittest import mock

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.errors import ConfigError
from pasta.pipeline import columns
from pasta.pipeline.columns import (
    check_columns,
    check_keys,
    extents,
    frame,
    integers,
    number_groups,
    numbers,
    process_key,
    require,
    unsigned,
)

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


@given(st.lists(st.integers(0, 3), max_size=9), st.booleans())
def test_a_column_may_follow_from_the_one_before_it_or_not(ids, follows):
    other = [-id_ if follows else place for place, id_ in enumerate(ids)]
    rows = pl.DataFrame({"id": ids, "other": other}, {"id": pl.Int64, "other": pl.Int32})
    with mock.patch.object(columns, "_FEW", 2):
        keys, (groups,) = number_groups(["id", "other"], rows)
    assert keys.rows() == sorted({*rows.rows()})
    assert keys.schema == rows.schema
    assert [keys.row(group) for group in groups.tolist()] == rows.rows()


@pytest.mark.parametrize(
    ("kind", "least"),
    [(pl.Int8, -128), (pl.Int64, -(2**63)), (pl.Int64, 2**63 - 256), (pl.UInt64, 2**64 - 256), (pl.UInt32, 0)],
)  # fmt: skip
@given(st.data())
def test_integers_are_numbered_whether_close_together_or_far_apart(kind, least, data):
    offsets = st.lists(st.integers(0, 5) | st.integers(0, 255), max_size=9)
    parts = [[least + offset for offset in data.draw(offsets)] for _ in range(2)]
    keys, groups = number_groups(["n"], *(pl.DataFrame({"n": part}, {"n": kind}) for part in parts))
    assert keys["n"].to_list() == sorted({*parts[0], *parts[1]})
    for part, numbered in zip(parts, groups, strict=True):
        assert keys["n"].gather(numbered).to_list() == part


@given(st.data())
def test_floats_are_numbered_with_nan_last_and_zeros_as_one(data):
    column = st.lists(st.none() | st.sampled_from([-0.0, 0.0, 1.5, float("nan")]), max_size=4)
    parts = [pl.Series("x", data.draw(column), pl.Float64) for _ in range(2)]
    if data.draw(st.booleans()):
        parts = [part.sort() for part in parts]
    keys, groups = number_groups(["x"], *(part.to_frame() for part in parts))
    assert keys["x"].to_list() == pytest.approx(
        pl.concat(parts).unique().sort().to_list(), nan_ok=True
    )
    for part, numbered in zip(parts, groups, strict=True):
        assert keys["x"].gather(numbered).eq_missing(part).all()


def test_without_keys_there_is_one_group():
    keys, (groups,) = number_groups([], pl.DataFrame({"ts": [5, 6]}))
    assert groups.tolist() == [0, 0]
    assert frame(keys, groups, {"ts": np.array([5, 6])}).to_dict(as_series=False) == {"ts": [5, 6]}


def test_the_process_is_told_by_what_all_inputs_have():
    one = pl.DataFrame(schema=["trace", "rank", "pid", "tid"])
    assert process_key(one, one.lazy(), within=["tid"]) == ["trace", "rank", "pid", "tid"]
    assert process_key(one, one.drop("trace")) == ["rank", "pid"]


@pytest.mark.parametrize("kind", [pl.Int32, pl.Int64, pl.UInt64])
def test_many_integers_that_lie_apart_are_numbered_by_sorting_not_sought_one_by_one(
    kind, monkeypatch
):
    limits = np.iinfo(str(kind).lower())
    draw = np.random.default_rng(0).integers
    drawn = draw(limits.min, limits.max, 70_000, limits.dtype, endpoint=True).tolist()
    column = pl.Series("x", [*drawn, *drawn[:500], limits.min, limits.max], kind)
    with monkeypatch.context() as patch:
        patch.setattr(np, "searchsorted", pytest.fail)
        keys, (groups,) = number_groups(["x"], column.to_frame())
    assert keys["x"].equals(column.unique().sort())
    assert groups.tolist() == (column.rank("dense") - 1).to_list()


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


def test_a_span_may_not_end_beyond_64_bits():
    spans = pl.DataFrame({"ts": [2**63 - 2, 0], "dur": [1, 5]})
    assert extents(spans)[1].tolist() == [2**63 - 1, 5]
    with pytest.raises(ConfigError, match="ends after the last time"):
        extents(spans.with_columns(dur=pl.Series([2, 5])))


@pytest.mark.parametrize("read", [integers, unsigned])
def test_integers_are_asked_for_by_type(read):
    rows = pl.DataFrame({"n": [1, None], "nothing": [None, None], "x": [0.5, 1.0], "t": ["a", "b"]})
    assert read(rows, "n", 7).tolist() == [1, 7]
    assert read(rows, "nothing", 7).tolist() == [7, 7]
    for name, kind in (("x", "Float64"), ("t", "String")):
        with pytest.raises(ConfigError, match=f"column '{name}' is {kind}; expected integers"):
            read(rows.clear(), name)


def test_columns_are_names_and_keys_are_no_lists():
    rows = pl.LazyFrame({"name": ["a"], "shapes": [["4x4"]]})
    check_columns(rows, ["name", "shapes"], "columns")
    for pattern in ("*", "^.*$", "nam"):
        with pytest.raises(ConfigError, match=r"^by: no column '"):
            check_keys(rows, [pattern], "by")
    with pytest.raises(ConfigError, match=r"^by: column 'shapes' is List\(String\)"):
        check_keys(rows, ["name", "shapes"], "by")
