"""`live`: bytes alive at a time, against a brute-force count."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from pasta.pipeline.stages.live import live


def lifetimes_of(rows):
    return pl.DataFrame(
        rows,
        schema={"space": pl.String, "ts": pl.Int64, "end": pl.Int64, "bytes": pl.Int64},
        orient="row",
    )


def points_of(rows):
    return pl.DataFrame(rows, schema={"space": pl.String, "ts": pl.Int64}, orient="row")


def test_lifetimes_are_half_open_and_spaces_apart():
    lives = lifetimes_of(
        [("a", 0, 10, 100), ("a", 10, None, 7), ("a", None, 5, 1_000), ("b", 0, None, 50)]
    )
    points = points_of([("a", 10), ("a", 9), ("a", 0), ("a", 4), ("b", -1), ("c", 3), ("a", None)])
    assert live(points, lives, by=["space"])["live_bytes"].to_list() == [
        7,
        100,
        1_100,
        1_100,
        0,
        0,
        None,
    ]


times = st.integers(0, 20)
space = st.sampled_from("ab")


@given(
    st.lists(st.tuples(space, times, st.none() | st.integers(1, 10), st.integers(0, 99))),
    st.lists(st.tuples(space, times)),
)
def test_against_brute_force(lives, points):
    rows = [(s, t, None if d is None else t + d, b) for s, t, d, b in lives]
    found = live(points_of(points), lifetimes_of(rows), by=["space"])["live_bytes"].to_list()
    expected = [
        sum(
            size
            for owner, start, end, size in rows
            if owner == place and start <= when and (end is None or when < end)
        )
        for place, when in points
    ]
    assert found == expected
