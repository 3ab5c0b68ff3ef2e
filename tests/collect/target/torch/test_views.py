from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.collect.target.torch import views as module
from pasta.collect.target.torch.views import View, coverage


def bytes_of(view: View) -> set[int]:
    """Walk every element, byte by byte."""
    return {
        (view.offset + sum(i * s for i, s in zip(index, view.strides, strict=True))) * view.itemsize
        + byte
        for index in itertools.product(*map(range, view.shape))
        for byte in range(view.itemsize)
    }


dimensions = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=4)
views = st.builds(
    lambda offset, dims, itemsize: View(
        offset, tuple(size for size, _ in dims), tuple(step for _, step in dims), itemsize
    ),
    st.integers(0, 20),
    dimensions,
    st.sampled_from([1, 2, 4, 8]),
)


@given(st.lists(views, max_size=4))
def test_counts_the_bytes_that_a_walk_over_all_elements_meets(some):
    expected = set().union(*map(bytes_of, some))
    assert coverage(tuple(some)) == (len(expected), True)


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (View(0, (4, 8), (8, 1), 4), 128),  # contiguous
        (View(0, (8, 4), (1, 8), 4), 128),  # transposed
        (View(3, (4, 8), (1, 0), 4), 16),  # expanded
        (View(0, (4, 4), (8, 2), 4), 64),  # every other column
        (View(0, (6, 3), (1, 1), 4), 32),  # sliding windows over 8 elements
        (View(0, (), (), 8), 8),  # a scalar
        (View(0, (0, 5), (5, 1), 4), 0),  # empty
    ],
)
def test_counts_one_view(view, expected):
    assert coverage((view,)) == (expected, True)


def test_bounds_what_is_too_much_to_enumerate(monkeypatch):
    monkeypatch.setattr(module, "RUNS_LIMIT", 3)
    columns = View(0, (4, 4), (8, 2), 4), View(1, (4, 4), (8, 2), 4)
    assert coverage(columns) == (128, False)
    assert coverage((View(0, (6, 3), (1, 1), 4),)) == (32, False)
