"""The tree kernels against walking from row to row."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pasta.pipeline.kernels.trees import in_circles, path_sums, paths, subtree_sums, sums_at, tree

PARENTS = st.integers(0, 15).flatmap(
    lambda count: st.lists(st.integers(-1, count - 1), min_size=count, max_size=count)
)


def ancestors(parents, row):
    """The rows above `row`, from near to far; `None` if it is among them."""
    found = []
    while (row := parents[row]) >= 0:
        if row in found:
            return None
        found.append(row)
    return found


def uncircled(parents):
    """The same by walking: the first row of each circle becomes a root."""
    result = list(parents)
    for row in range(len(parents)):
        seen, at = [row], result[row]
        while at >= 0 and at not in seen:
            seen.append(at)
            at = result[at]
        if at == row:
            result[row] = -1
    return result


@given(PARENTS)
def test_depths_and_levels(parents):
    rows = tree(np.array(parents, dtype=np.int64))
    expected = uncircled(parents)
    assert rows.parents.tolist() == expected
    depths = [len(ancestors(expected, row)) for row in range(len(parents))]
    assert rows.depths.tolist() == depths
    assert [level.tolist() for level in rows.levels] == [
        [row for row, depth in enumerate(depths) if depth == wanted]
        for wanted in range(max(depths, default=-1) + 1)
    ]


@given(PARENTS)
def test_rows_in_circles(parents):
    def above(row):
        seen = []
        while (row := parents[row]) >= 0 and row not in seen:
            seen.append(row)
        return seen

    expected = [row in above(row) for row in range(len(parents))]
    assert in_circles(np.array(parents, dtype=np.int64)).tolist() == expected


@given(PARENTS, st.randoms(use_true_random=False))
def test_subtree_sums(parents, random):
    parents = uncircled(parents)
    values = [random.randint(-(2**60), 2**60) for _ in parents]
    rows = tree(np.array(parents, dtype=np.int64))
    found = subtree_sums(rows, np.array(values, dtype=np.int64)).tolist()
    for row, total in enumerate(found):
        below = [i for i in range(len(parents)) if i == row or row in ancestors(parents, i)]
        assert (total - sum(values[i] for i in below)) % 2**64 == 0


@given(PARENTS, st.data())
def test_paths_are_equal_exactly_where_the_names_are(parents, data):
    parents = uncircled(parents)
    count = len(parents)
    labels = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    found = paths(tree(np.array(parents, dtype=np.int64)), np.array(labels, dtype=np.int64))
    spelled = []
    for above, label in zip(found.parents.tolist(), found.labels.tolist(), strict=True):
        assert above < len(spelled)
        spelled.append((*(spelled[above] if above >= 0 else ()), label))
    assert len(set(spelled)) == len(spelled)
    for row in range(count):
        way = [labels[i] for i in [row, *ancestors(parents, row)]][::-1]
        assert spelled[found.of_rows[row]] == tuple(way)


def test_a_deep_chain_and_a_large_circle():
    count = 5000
    chain = np.arange(-1, count - 1)
    assert tree(chain).depths.tolist() == list(range(count))
    circle = np.append(np.arange(1, count), 0)
    assert tree(circle).depths.tolist() == [0, *range(count - 1, 0, -1)]


def test_sums_at_places():
    found = sums_at(np.array([2, 0, 2]), np.array([1.5, 2.0, 4.0]), 4)
    assert found.tolist() == [2.0, 0.0, 5.5, 0.0]


@given(PARENTS)
def test_path_sums(parents):
    rows = tree(np.array(parents, dtype=np.int64))
    values = np.array([1 << row for row in range(len(parents))], dtype=np.int64)
    expected = uncircled(parents)
    walked = [
        values[row] + sum(values[above] for above in ancestors(expected, row))
        for row in range(len(parents))
    ]
    assert path_sums(rows, values).tolist() == walked
