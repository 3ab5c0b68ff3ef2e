"""Parents inferred by nesting, against a search of every earlier span."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.nesting import OVERHANG, parents

FOREVER = 1 << 62


def by_definition(spans):
    """The rule as written, span by span: quadratic, and nothing else."""
    rank = {row: (span[1], -span[2], row) for row, span in enumerate(spans)}
    result = []
    for child, (group, start, end) in enumerate(spans):
        enclosing = [
            row
            for row, (other_group, other_start, other_end) in enumerate(spans)
            if other_group == group
            and rank[row] < rank[child]
            and (other_start == start or other_start <= start < other_end)
            and end - other_end < OVERHANG
        ]
        result.append(max(enclosing, key=rank.__getitem__, default=-1))
    return result


def infer(spans):
    columns = np.array(spans, dtype=np.int64).reshape(-1, 3).T
    return parents(*columns).tolist()


SPAN = st.tuples(
    st.integers(0, 2), st.integers(0, 40), st.sampled_from([0, 1, 2, 5, 10, 400, 2000, FOREVER])
).map(lambda span: (span[0], span[1] * 100, span[1] * 100 + span[2]))


@settings(max_examples=300, deadline=None)
@given(st.lists(SPAN, max_size=60))
def test_parents_are_those_of_the_definition(spans):
    assert infer(spans) == by_definition(spans)


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], []),
        ([(0, 0, 100)], [-1]),
        ([(0, 0, 100), (0, 10, 50), (0, 20, 30), (0, 60, 70)], [-1, 0, 1, 0]),
        ([(0, 20, 30), (0, 10, 50), (0, 0, 100)], [1, 2, -1]),
        ([(0, 0, 10), (0, 10, 20)], [-1, -1]),
        ([(0, 0, 10), (1, 5, 6)], [-1, -1]),
        ([(0, 0, 5), (0, 0, 10)], [1, -1]),
        ([(0, 0, 5), (0, 0, 5), (0, 5, 5), (0, 5, 5)], [-1, 0, -1, 2]),
        ([(0, 0, 10), (0, 9, 9)], [-1, 0]),
        ([(0, 0, FOREVER), (0, 10, 20)], [-1, 0]),
    ],
    ids=[
        "nothing",
        "alone",
        "nested",
        "any order",
        "touching",
        "two threads",
        "one start",
        "identical",
        "instant",
        "unfinished",
    ],
)
def test_known_nestings(spans, expected):
    assert infer(spans) == expected


def test_a_child_may_overhang_by_less_than_a_microsecond():
    outer, parent = (0, 0, 10_000), (0, 0, 5_000)
    assert infer([outer, parent, (0, 4_000, 5_000 + OVERHANG - 1)]) == [-1, 0, 1]
    assert infer([outer, parent, (0, 4_000, 5_000 + OVERHANG)]) == [-1, 0, 0]


def test_a_deep_and_wide_nesting():
    depth, width = 500, 500
    chain = [(0, level, 10**6 - level) for level in range(depth)]
    leaves = [(0, 10**4 + 10 * leaf, 10**4 + 10 * leaf + 5) for leaf in range(width)]
    assert infer(chain + leaves) == [-1, *range(depth - 1), *[depth - 1] * width]
