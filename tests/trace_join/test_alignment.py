"""The alignment of two sequences against the textbook's table of all subsequences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.trace_join.alignment import align, doubtful
from tests.trace_join.two_runs import longest_common

SEQUENCES = st.lists(st.integers(0, 4), max_size=40)


def codes(values) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def check(left, right, rows, columns) -> None:
    assert len(rows) == len(columns)
    assert (left[rows] == right[columns]).all()
    assert (np.diff(rows) > 0).all()
    assert (np.diff(columns) > 0).all()


@given(SEQUENCES, SEQUENCES)
@settings(max_examples=400, deadline=None)
def test_as_many_are_matched_as_can_be(left, right):
    rows, columns = align(codes(left), codes(right))
    check(codes(left), codes(right), rows, columns)
    assert len(rows) == longest_common(left, right)


@given(SEQUENCES, SEQUENCES, st.integers(1, 10), st.integers(1, 30))
@settings(max_examples=300, deadline=None)
def test_a_search_cut_short_still_gives_a_common_subsequence(left, right, lag, room):
    rows, columns = align(codes(left), codes(right), lag=lag, room=room)
    check(codes(left), codes(right), rows, columns)


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=30),
    st.integers(1, 40),
    st.sets(st.integers(0, 1199), max_size=6),
    st.sets(st.integers(0, 1199), max_size=6),
)
@settings(max_examples=150, deadline=None)
def test_steps_that_repeat_lose_no_more_than_what_is_missing(step, repeats, missing, others):
    whole = codes(step * repeats)
    left = np.delete(whole, [place for place in missing if place < len(whole)])
    right = np.delete(whole, [place for place in others if place < len(whole)])
    rows, columns = align(left, right)
    check(left, right, rows, columns)
    assert len(rows) >= len(whole) - len(missing | others)


def test_a_block_that_one_side_lacks_does_not_shift_what_repeats():
    chance = np.random.default_rng(3)
    step = chance.integers(0, 60, 500)
    whole = np.tile(step, 100)
    tuning = chance.integers(0, 60, 3000)
    left = np.concatenate([whole[:2000], tuning, whole[2000:]])
    rows, columns = align(left, whole)
    assert len(rows) == len(whole)
    late = columns > 5000  # the block is over, whichever of its elements served as others
    assert (rows[late] - columns[late] == 3000).all()


def test_what_has_nothing_in_common_is_not_matched():
    assert [len(side) for side in align(codes([1, 2, 1]), codes([3, 4]))] == [0, 0]
    assert [len(side) for side in align(codes([]), codes([3]))] == [0, 0]


def unlike(left, right) -> set[tuple[int, int]]:
    """All pairs that stand in any longest common subsequence."""
    best = longest_common(left, right)
    return {
        (i, j)
        for i, x in enumerate(left)
        for j, y in enumerate(right)
        if x == y
        and longest_common(left[:i], right[:j]) + longest_common(left[i + 1 :], right[j + 1 :]) + 1
        == best
    }


@given(st.lists(st.integers(0, 3), max_size=9), st.lists(st.integers(0, 3), max_size=9))
@settings(max_examples=200, deadline=None)
def test_what_is_doubtful_has_another_longest_match(left, right):
    rows, columns = align(codes(left), codes(right))
    possible = unlike(left, right)
    movable = sum(
        any((i == row) != (j == column) for i, j in possible)
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
    )
    assert doubtful(codes(left), codes(right), rows, columns) <= movable


@pytest.mark.parametrize(
    ("left", "right", "count"),
    [
        ([1, 1], [1], 1),
        ([1, 2], [1], 0),  # the other side has no 2 that it could be
        ([1, 2, 3], [1, 3, 2, 3], 0),
        ([1, 2, 1, 2, 3], [1, 2, 3], 2),
        ([1, 2, 3], [1, 2, 3], 0),
        ([1, 1, 1, 2], [1, 1, 2], 2),
    ],
)
def test_neighbours_that_could_be_it_are_doubtful(left, right, count):
    rows, columns = align(codes(left), codes(right))
    assert doubtful(codes(left), codes(right), rows, columns) == count
