"""The stage `window`."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.errors import ConfigError
from pasta.pipeline.stages.window import window

TIMES = st.lists(st.integers(-30, 30), max_size=12)


def rows(*times, pid=1):
    return pl.LazyFrame({"ts": times}, schema={"ts": pl.Int64}).with_columns(
        rank=pl.lit(0), pid=pl.lit(pid), row=pl.int_range(pl.len())
    )


def placed(found):
    return found.sort("row", "window").select("ts", "window", "window_start").collect().rows()


def test_tumbling():
    found = window(rows(0, 9, 10, 25, -1, None), None, every=10)
    assert placed(found) == [
        (0, 0, 0),
        (9, 0, 0),
        (10, 1, 10),
        (25, 2, 20),
        (-1, -1, -10),
        (None, None, None),
    ]


def test_sliding_windows_overlap():
    found = window(rows(0, 7), None, every=10, slide=5)
    assert placed(found) == [(0, -1, -5), (0, 0, 0), (7, 0, 0), (7, 1, 5)]


def test_windows_with_gaps_between_them():
    assert placed(window(rows(0, 3, 4, 12), None, every=4, slide=10)) == [
        (0, 0, 0),
        (3, 0, 0),
        (12, 1, 10),
    ]


@given(TIMES, st.integers(1, 12), st.integers(1, 6))
def test_a_row_is_in_every_window_that_contains_it(times, every, slide):
    found = placed(window(rows(*times), None, every=every, slide=slide))
    assert sorted(found) == sorted(
        (ts, k, k * slide)
        for ts in times
        for k in range(-50, 50)
        if k * slide <= ts < k * slide + every
    )


STEPS = pl.LazyFrame(
    [(0, 1, 30, 10, "second"), (0, 1, 0, 20, "first"), (0, 1, 40, None, "last"), (0, 2, 5, 5, "x")],
    schema=["rank", "pid", "ts", "dur", "name"],
    orient="row",
).cast({"rank": pl.Int32, "pid": pl.Int32, "ts": pl.Int64, "dur": pl.Int64})


def test_steps():
    found = window(rows(39, 0, 20, 19, -5, 30, 99, None), STEPS).sort("row").collect()
    assert found.select("ts", "window", "window_start", "step").rows() == [
        (39, 1, 30, "second"),
        (0, 0, 0, "first"),
        (20, None, None, None),
        (19, 0, 0, "first"),
        (-5, None, None, None),
        (30, 1, 30, "second"),
        (99, 2, 40, "last"),
        (None, None, None, None),
    ]


def test_steps_of_another_process_do_not_count():
    found = window(rows(7, pid=2), STEPS).collect()
    assert found.select("window", "step").rows() == [(0, "x")]
    assert window(rows(7, pid=3), STEPS).collect()["step"].to_list() == [None]


@given(TIMES, st.lists(st.integers(1, 9), max_size=5))
def test_steps_are_found_by_looking_at_each(times, lengths):
    starts = [sum(lengths[:i]) + 2 * i for i in range(len(lengths))]
    table = {"ts": starts, "dur": lengths, "name": [str(start) for start in starts]}
    kinds = {"ts": pl.Int64, "dur": pl.Int64, "name": pl.String}
    steps = pl.LazyFrame(table, schema=kinds).with_columns(rank=pl.lit(0), pid=pl.lit(1))
    expected = [
        next(
            (i for i, (s, n) in enumerate(zip(starts, lengths, strict=True)) if s <= ts < s + n),
            None,
        )
        for ts in times
    ]
    found = window(rows(*times), steps).sort("row").collect()
    assert found["window"].to_list() == expected


def test_empty_input_has_the_same_columns():
    for steps, every in ((None, 10), (STEPS, None)):
        found = window(rows(1), steps, every=every).collect()
        empty = window(rows(1).clear(), steps, every=every).collect()
        assert empty.schema == found.schema
        assert found.schema["window"] == pl.Int64


def test_mistakes():
    with pytest.raises(ConfigError, match="every: give a length"):
        window(rows(), None)
    with pytest.raises(ConfigError, match="longer than 0 ns"):
        window(rows(), None, every=0)
    with pytest.raises(ConfigError, match="slide: a row falls in 1000 windows; at most 64"):
        window(rows(), None, every=1000, slide=1)
    with pytest.raises(ConfigError, match="rows: needs column 'start'"):
        window(rows(), None, every=10, time="start")
    with pytest.raises(ConfigError, match="not both"):
        window(rows(), rows(), every=10)
    with pytest.raises(ConfigError, match="slide: windows that are steps"):
        window(rows(), rows(), slide=10)
