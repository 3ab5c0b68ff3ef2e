"""Pairs of processes or streams against all ways to pair them."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.trace_join.pairing import pair_in_order


def most_in_common(common: np.ndarray) -> int:
    rows, columns = common.shape
    return max(
        int(common[list(chosen), list(others)].sum())
        for count in range(min(rows, columns) + 1)
        for chosen in combinations(range(rows), count)
        for others in combinations(range(columns), count)
    )


@given(st.integers(0, 5), st.integers(0, 5), st.data())
@settings(max_examples=200, deadline=None)
def test_pairs_keep_their_order_and_have_most_in_common(rows, columns, data):
    values = data.draw(
        st.lists(st.integers(0, 4), min_size=rows * columns, max_size=rows * columns)
    )
    common = np.array(values, dtype=np.int64).reshape(rows, columns)
    pairs = pair_in_order(common)
    assert all(common[pair] > 0 for pair in pairs)
    for one, other in pairwise(pairs):
        assert one[0] < other[0]
        assert one[1] < other[1]
    assert sum(int(common[pair]) for pair in pairs) == most_in_common(common)


def test_alike_members_are_paired_by_their_place():
    assert pair_in_order(np.full((3, 3), 10)) == [(0, 0), (1, 1), (2, 2)]


def test_a_member_that_one_side_lacks_does_not_shift_the_rest():
    common = np.array([[9, 0, 0], [0, 0, 0], [0, 8, 1], [0, 1, 7]])
    assert pair_in_order(common) == [(0, 0), (2, 1), (3, 2)]
