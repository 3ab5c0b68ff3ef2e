"""Times through launches that two runs share, against exact fractions."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.trace_join.times import TimeMap

TIMES = st.integers(-(10**18), 10**18)
INCREASING = st.lists(TIMES, min_size=1, max_size=8, unique=True).map(sorted)


def array(values) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def exact(theirs: list[int], ours: list[int], time: int) -> int:
    """The time there, by the definition."""
    if time < theirs[0]:
        return time - theirs[0] + ours[0]
    if time >= theirs[-1]:
        return time - theirs[-1] + ours[-1]
    at = max(place for place, begin in enumerate(theirs) if begin <= time)
    slope = Fraction(ours[at + 1] - ours[at], theirs[at + 1] - theirs[at])
    return ours[at] + ceil((time - theirs[at]) * slope)


@given(INCREASING, INCREASING, st.lists(TIMES, min_size=1))
@settings(max_examples=300, deadline=None)
def test_times_between_launches_are_exact_and_keep_their_order(theirs, ours, times):
    count = min(len(theirs), len(ours))
    theirs, ours = theirs[:count], ours[:count]
    asked = sorted([*times, *theirs])
    found = TimeMap(array(theirs), array(ours), 0)(array(asked))
    assert found.tolist() == [exact(theirs, ours, time) for time in asked]
    assert (np.diff(found) >= 0).all()


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=12))
@settings(max_examples=300, deadline=None)
def test_of_launches_in_another_order_as_many_count_as_can(pairs):
    theirs, ours = (array(side) for side in zip(*pairs, strict=True))
    found = TimeMap(theirs, ours, 0)
    chains = {(): 0}
    for pair in sorted(pairs):
        longer = [
            ((*chain, pair), count + 1)
            for chain, count in chains.items()
            if not chain or (chain[-1][0] < pair[0] and chain[-1][1] < pair[1])
        ]
        chains.update(longer)
    assert found.out_of_order == len(pairs) - max(chains.values())
    assert (np.diff(found(np.arange(-5, 40))) >= 0).all()


def test_what_happens_between_two_launches_stays_between_them():
    """An allocation just before a launch, and a release just after, however short the other run."""
    times = TimeMap(array([1000, 2000, 3000]), array([10, 12, 13]), 0)
    before, at, after = times(array([1999, 2000, 2001]))
    assert before <= 12
    assert at == 12
    assert after > 12


def test_where_no_launch_is_known_times_are_shifted():
    nothing = array([])
    assert TimeMap(nothing, nothing, 7)(array([1, 5])).tolist() == [8, 12]
