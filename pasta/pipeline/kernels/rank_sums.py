"""The rank-sum test of two samples (Wilcoxon 1945; Mann and Whitney 1947), for many groups at once."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import changes, group_sums, order_by

MOST_PAIRS = 4096
"""Of values of both samples up to which the distribution is counted out, not approximated."""


def pairs_in_order(groups: Any, values: Any, second: Any, weights: Any, count: int) -> Any:
    """Count the pairs of a value of each sample in which the second is larger, and smaller.

    Args:
        groups: group of each value, from 0 to `count` - 1.
        values: the values of both samples, integers.
        second: bool, whether the value is of the second sample.
        weights: how many equal values each stands for, int64.
        count: number of groups.

    Returns:
        Array of shape (2, `count`): pairs whose second value is larger, and smaller.
    """
    xp = array_namespace(groups)
    order = order_by(groups, values)
    groups, values = groups[order], values[order]
    first = xp.where(second, 0, weights)[order]
    new = changes(groups, values)
    starts, runs = xp.flatnonzero(new), xp.cumsum(new) - 1
    totals = group_sums(groups, first, count)
    earlier_groups = (xp.cumsum(totals) - totals)[groups]
    smaller = (xp.cumsum(first) - first)[starts][runs] - earlier_groups
    equal = group_sums(runs, first, len(starts))[runs]
    larger = totals[groups] - smaller - equal
    later = xp.where(second, weights, 0)[order]
    above = group_sums(groups, later * smaller, count)
    below = group_sums(groups, later * larger, count)
    return xp.stack([above, below])


def likelihood(above: int, below: int, first: int, second: int) -> float:
    """Return the two-sided p-value of samples with so many pairs in either order.

    Of values that are equal the order is taken that speaks least for a difference, so that p is never
    too small. Up to `MOST_PAIRS` pairs it is exact, above from the normal distribution with the
    correction for continuity.

    Args:
        above: pairs whose second value is larger.
        below: pairs whose second value is smaller.
        first: size of the first sample.
        second: size of the second sample.
    """
    pairs = first * second
    fewest = pairs - max(above, below)
    if 2 * fewest >= pairs:
        return 1.0
    if pairs <= MOST_PAIRS:
        return min(1.0, 2 * _tails(min(first, second), max(first, second))[fewest])
    deviation = math.sqrt(pairs * (first + second + 1) / 12)
    return min(1.0, math.erfc((pairs / 2 - fewest - 0.5) / deviation / math.sqrt(2)))


@lru_cache(maxsize=16)
def _tails(first: int, second: int) -> list[float]:
    """Return for each number of pairs how likely at most so many are in one order, by chance.

    The orders with u such pairs are counted by the coefficients of the Gaussian binomial, the product
    of (1 - q^(second + i)) / (1 - q^i) for i from 1 to `first`.
    """
    orders = [0] * (first * second + 1)
    orders[0] = 1
    for i in range(1, first + 1):
        for power in range(len(orders) - 1, second + i - 1, -1):
            orders[power] -= orders[power - second - i]
        for power in range(i, len(orders)):
            orders[power] += orders[power - i]
    total, tails = 0, []
    for number in orders:
        total += number
        tails.append(total / math.comb(first + second, first))
    return tails


def adjusted(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return p-values of one family after Holm (1979): at most `alpha` with chance `alpha` if all is chance."""
    order = np.argsort(values, kind="stable")
    steps = values[order] * np.arange(len(values), 0, -1)
    result = np.empty(len(values))
    result[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return result
