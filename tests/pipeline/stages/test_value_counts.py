"""`value_counts` counts values of groups, and counts of parts add up."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.errors import ConfigError
from pasta.pipeline.stages.value_counts import value_counts
from tests.pipeline.merging import assert_merges

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.none() | st.integers(0, 1),
        st.none() | st.integers(-3, 3) | st.sampled_from([-(1 << 62), 1 << 62]),
    )
)


def frame(rows):
    return pl.DataFrame(
        rows, schema={"name": pl.String, "grid": pl.UInt32, "dur": pl.Int64}, orient="row"
    )


def test_by_hand():
    rows = frame(
        [("b", 1, 7), ("a", 1, 5), ("b", 1, 7), ("b", 1, 2), ("a", None, 9), ("a", 1, None)]
    )
    found = value_counts(rows, by=["name", "grid"], value="dur")
    assert found.rows() == [("a", None, 9, 1), ("a", 1, 5, 1), ("b", 1, 2, 1), ("b", 1, 7, 2)]
    assert found.schema["count"] == pl.Int64


@given(ROWS, st.data())
def test_against_a_counter_and_the_merge_law(rows, data):
    by = data.draw(st.sampled_from([["name", "grid"], ["grid"], []]))
    table = frame(rows)
    found = value_counts(table, by=by, value="dur")
    known = table.drop_nulls("dur").select(*by, "dur").rows()
    assert Counter({row[:-1]: row[-1] for row in found.rows()}) == Counter(known)
    order = [tuple((key is not None, key) for key in row[:-1]) for row in found.rows()]
    assert order == sorted(order)


@given(ROWS, st.data())
def test_merge_law(rows, data):
    by = data.draw(st.sampled_from([["name", "grid"], ["grid"]]))
    tick = data.draw(st.none() | st.just("tick"))
    assert_merges("value_counts", frame(rows), {"by": by, "value": "dur", "tick": tick}, data)


def test_the_tick_is_that_of_all_groups():
    rows = frame([("a", 1, 12), ("a", 1, 18), ("b", 1, 10), ("b", 1, None)])
    found = value_counts(rows, by=["name"], value="dur", tick="tick")
    assert found.rows() == [("a", 12, 1, 2), ("a", 18, 1, 2), ("b", 10, 1, 2)]


@pytest.mark.parametrize(
    "given",
    [
        {"by": ["name"], "value": "count"},
        {"by": ["count"], "value": "dur"},
        {"by": ["name"], "value": "dur", "tick": "dur"},
        {"by": ["dur"], "value": "dur"},
    ],
)
def test_no_column_takes_the_place_of_another(given):
    rows = frame([("a", 1, 12)]).with_columns(count=pl.lit(3))
    with pytest.raises(ConfigError, match="two columns of the result would be called"):
        value_counts(rows, **given)
