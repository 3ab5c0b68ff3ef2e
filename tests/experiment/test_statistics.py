"""Trimmed means and Student's intervals against values of published tables and of other formulas."""

from __future__ import annotations

import random

import pytest

from pasta.experiment.statistics import mean_interval, student, trimmed_mean


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        ([7], 7),
        ([1, 5], 3),
        ([1, 2, 3, 100], 26.5),
        ([100, 2, 3, 4, -50], 3),
        ([1000, *range(1, 9), -1000], (2 + 3 + 4 + 5 + 6 + 7) / 6),
    ],
)
def test_a_fifth_is_cut_at_each_end_from_five_values_on(values, mean):
    assert trimmed_mean(values) == pytest.approx(mean)


@pytest.mark.parametrize(
    ("freedom", "bound"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (10, 2.228), (30, 2.042), (100, 1.984)],
)  # fmt: skip
def test_bounds_of_published_tables(freedom, bound):
    assert student(freedom) == pytest.approx(bound, abs=5e-4)
    assert student(10, 0.99) == pytest.approx(3.169, abs=5e-4)


def test_the_interval_by_hand():
    """Of 1, 2, 3: mean 2, deviation 1, so 4.303 / sqrt(3) to each side."""
    interval = mean_interval([1, 2, 3])
    assert interval.mean == 2
    assert interval.low == pytest.approx(2 - 4.3027 / 3**0.5, abs=1e-3)
    assert interval.high == pytest.approx(2 + 4.3027 / 3**0.5, abs=1e-3)
    assert not interval.excludes_zero
    assert mean_interval([5, 5.1, 4.9]).excludes_zero
    assert mean_interval([-5, -5.1, -4.9]).excludes_zero
    assert mean_interval([3]) is None


def test_the_true_mean_lies_within_as_often_as_said():
    chance = random.Random(3)
    inside = 0
    for _ in range(2000):
        interval = mean_interval([chance.gauss(10, 3) for _ in range(5)])
        inside += interval.low <= 10 <= interval.high
    assert 0.93 < inside / 2000 < 0.97
