"""The interval kernels against counting the ns one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pasta.pipeline.kernels.intervals import Intervals, complement, coverage, union

ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(-5, 30), st.integers(0, 8)), max_size=25)


def intervals(rows):
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return Intervals(table[:, 0], table[:, 1], table[:, 1] + table[:, 2])


def moments(found):
    return [
        (group, moment)
        for group, start, end in zip(*(values.tolist() for values in found), strict=True)
        for moment in range(start, end)
    ]


def covered(rows):
    return {(group, start + i) for group, start, length in rows for i in range(length)}


@given(ROWS)
def test_union_is_every_moment_once_in_as_few_intervals_as_possible(rows):
    merged = union(intervals(rows))
    assert moments(merged) == sorted(covered(rows))
    ends = set(zip(merged.groups.tolist(), merged.ends.tolist(), strict=True))
    assert not ends & set(zip(merged.groups.tolist(), merged.starts.tolist(), strict=True))


@given(ROWS)
def test_union_of_unions_is_the_union(rows):
    halves = [union(intervals(half)) for half in (rows[::2], rows[1::2])]
    joined = Intervals(*(np.concatenate(pair) for pair in zip(*halves, strict=True)))
    for found, expected in zip(union(joined), union(intervals(rows)), strict=True):
        assert found.tolist() == expected.tolist()


@given(ROWS)
def test_complement_is_what_is_left_of_each_groups_span(rows):
    busy = covered(rows)
    expected = {
        (group, moment)
        for group in {group for group, _ in busy}
        for moment in range(
            min(t for g, t in busy if g == group), max(t for g, t in busy if g == group)
        )
    } - busy
    assert moments(complement(union(intervals(rows)))) == sorted(expected)


@given(st.lists(ROWS, min_size=1, max_size=3))
def test_coverage_tells_the_kinds_of_every_moment(kinds):
    pieces, mask = coverage([union(intervals(rows)) for rows in kinds])
    found = {}
    for index, bits in enumerate(mask.tolist()):
        one = pieces.where(np.arange(len(mask)) == index)
        for moment in moments(one):
            assert moment not in found
            found[moment] = bits
    busy = set().union(*map(covered, kinds))
    for moment, bits in found.items():
        assert bits == sum((moment in covered(rows)) << k for k, rows in enumerate(kinds))
    assert busy <= set(found)


def test_union_is_exact_near_the_ends_of_int64():
    late = 2**63 - 10
    merged = union(
        Intervals(np.array([0, 0]), np.array([late, late + 4]), np.array([late + 4, late + 9]))
    )
    assert [values.tolist() for values in merged] == [[0], [late], [late + 9]]
