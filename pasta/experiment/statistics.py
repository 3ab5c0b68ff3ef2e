"""Means over repeated runs, and how far they are to be trusted."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

TRIM = 0.2
"""What is cut from the sorted values at each end."""
CONFIDENCE = 0.95


class Interval(NamedTuple):
    """A mean, and the bounds between which the true one lies in 95 of 100 experiments."""

    mean: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether chance alone would seldom give a mean so far from 0."""
        return self.low > 0 or self.high < 0


def trimmed_mean(values: Sequence[float]) -> float:
    """Return the mean without the smallest and the largest fifth of the values.

    At each end `floor(n / 5)` of n values are cut: none of fewer than 5, 1 of 5 to 9, 2 of 10.
    """
    cut = math.floor(TRIM * len(values))
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


def mean_interval(values: Sequence[float]) -> Interval | None:
    """Return the mean with its 95 % interval by Student's t; `None`: fewer than two values."""
    if len(values) < 2:
        return None
    mean = statistics.fmean(values)
    half = student(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)


def student(freedom: int, confidence: float = CONFIDENCE) -> float:
    """Return the bound that |t| does not pass with a probability, for whole degrees of freedom."""
    low, high = 0.0, 1e6
    while high - low > 1e-9 * (1 + low):
        middle = (low + high) / 2
        low, high = (low, middle) if _within(middle, freedom) > confidence else (middle, high)
    return (low + high) / 2


def _within(bound: float, freedom: int) -> float:
    """Return the probability that |t| is at most `bound`: Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    angle = math.atan(bound / math.sqrt(freedom))
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for factor in range(2 + odd, freedom + 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (factor - 1) / factor
    if odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total
