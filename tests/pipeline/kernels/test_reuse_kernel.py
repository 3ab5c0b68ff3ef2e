"""Reuse distances against walking through the uses with a list in order of last use."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pasta.pipeline.kernels.reuse import (
    hits_below,
    last_before,
    previous_uses,
    reuse_distances,
    smaller_before,
)

USES = st.lists(st.integers(0, 9), max_size=70)


def walk(things):
    """Distances by a stack of things, the last used on top; -1: never used before."""
    stack, found = [], []
    for thing in things:
        found.append(stack.index(thing) if thing in stack else -1)
        if thing in stack:
            stack.remove(thing)
        stack.insert(0, thing)
    return found


def distances(things):
    return reuse_distances(previous_uses(np.array(things, dtype=np.int64)))


@given(USES)
def test_equals_a_walk_with_a_stack(things):
    assert distances(things).tolist() == walk(things)


@given(USES)
def test_previous_use_is_the_last_of_the_same(things):
    expected = [
        max((j for j in range(i) if things[j] == thing), default=-1)
        for i, thing in enumerate(things)
    ]
    assert previous_uses(np.array(things, dtype=np.int64)).tolist() == expected


@given(st.integers(0, 300).flatmap(lambda count: st.permutations(range(count))))
def test_smaller_before_by_looking_at_all(permutation):
    expected = [sum(b < a for b in permutation[:i]) for i, a in enumerate(permutation)]
    assert smaller_before(np.array(permutation, dtype=np.int64)).tolist() == expected


def test_known_programs():
    """A stream never comes back; a loop over 100 things comes back after the 99 others."""
    assert (distances(range(1000)) == -1).all()
    looped = distances(list(range(100)) * 5)
    assert (looped[:100] == -1).all()
    assert (looped[100:] == 99).all()


def test_a_long_random_run():
    things = np.random.default_rng(3).integers(0, 300, 20_000)
    assert distances(things).tolist() == walk(things.tolist())


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.booleans()), max_size=30))
def test_last_chosen_row_at_an_earlier_moment(rows):
    rows.sort(key=lambda row: row[:2])
    groups, moments, chosen = (np.array([row[i] for row in rows]) for i in range(3))
    found = last_before(groups.astype(int), [moments.astype(int)], chosen.astype(bool))
    for at, (group, moment, _) in enumerate(rows):
        earlier = [
            j for j, row in enumerate(rows) if row[2] and row[0] == group and row[1] < moment
        ]
        assert found[at] == max(earlier, default=-1)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 9)), max_size=30))
def test_hits_are_uses_below_the_size(rows):
    groups, found = (np.array([row[i] for row in rows], np.int64) for i in range(2))
    sizes = np.array([1, 2, 4, 8])
    expected = [
        [sum(g == group and 0 <= d < size for g, d in rows) for size in sizes] for group in range(3)
    ]
    assert hits_below(found, groups, sizes, 3).tolist() == expected
