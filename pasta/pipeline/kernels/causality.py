"""The PC algorithm on correlations: which variables are linked also while others are held fixed.

Spirtes, Glymour and Scheines, Causation, Prediction, and Search (2000), in the form of Colombo and
Maathuis (2014), whose result does not depend on the order of the variables. It takes relations for linear,
and no common cause for left out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

Matrix = np.ndarray[Any, Any]


class Tests(NamedTuple):
    """When a correlation counts as none.

    Attributes:
        critical: standard errors from 0 below which it does, after Fisher's transformation: 1 / sqrt(size - given - 3)
            where as many variables as `given` are held fixed (Fisher 1924).
        least: size below which it does, however certain.
        most_given: variables that are held fixed at once, at most.
    """

    critical: float
    least: float
    most_given: int

    def absent(self, correlation: float, size: float, given: int) -> bool:
        """Tell whether a partial correlation, with so many variables held fixed, counts as none."""
        freedom = size - given - 3
        bounded = min(abs(correlation), 1 - 1e-12)
        return bounded < self.least or freedom <= 0 or (
            math.atanh(bounded) * math.sqrt(freedom) < self.critical
        )  # fmt: skip


class Moments(NamedTuple):
    """Sizes, sums of variables and of their products, of blocks of rows; those of all rows are their sums."""

    sizes: Matrix
    sums: Matrix
    products: Matrix

    def correlations(self, weights: Matrix) -> tuple[float, Matrix]:
        """Return how many rows there are, and their correlations, where each block counts so often."""
        count = self.sums.shape[1]
        size = float(weights @ self.sizes)
        products = (weights @ self.products.reshape(len(weights), -1)).reshape(count, count)
        return size, correlations(size, weights @ self.sums, products)


class Link(NamedTuple):
    """What is known of a pair of variables.

    Attributes:
        linked: whether they are linked, over all rows.
        correlation: over all rows.
        weakest: as in `Skeleton`.
        stability: share of the repetitions in which they are linked.
        forward: share of these in which the first causes the second.
        backward: share of these in which the second causes the first.
    """

    linked: bool
    correlation: float
    weakest: float
    stability: float
    forward: float
    backward: float


class Skeleton(NamedTuple):
    """Links without directions.

    Attributes:
        linked: whether two variables are linked.
        weakest: their partial correlation of least size, over all tests until they were separated.
        separators: pair that is not linked, smaller number first -> variables that separate it.
    """

    linked: Matrix
    weakest: Matrix
    separators: dict[tuple[int, int], tuple[int, ...]]


def correlations(size: float, sums: Matrix, products: Matrix) -> Matrix:
    """Return the correlations of variables from sums of them and of their products.

    A variable without variance, beyond what rounding leaves, has correlations that are not a number.
    """
    means = sums / size
    covariances = products / size - np.outer(means, means)
    variances = np.diag(covariances).copy()
    variances[~(variances > 1e-12 * (np.diag(products) / size))] = np.nan
    scale = np.sqrt(variances)
    found: Matrix = np.clip(covariances / np.outer(scale, scale), -1, 1)
    return found


def links(
    moments: Moments, tiers: list[int], tests: Tests, resamples: int
) -> dict[tuple[int, int], Link]:
    """Link variables that vary, and count how often links are there where blocks are drawn anew.

    Args:
        moments: of the variables.
        tiers: as in `directions`.
        tests: when a correlation counts as none.
        resamples: how often as many blocks are drawn, each as often as chance has it.
    """
    blocks, count = moments.sums.shape
    size, matrix = moments.correlations(np.ones(blocks))
    drawn = _drawn_anew(moments, resamples)
    counted = size / _design_effect(drawn, size)
    linked, arrows = np.zeros((count, count)), np.zeros((count, count))
    for repeated in drawn:
        found = skeleton(repeated, counted, tests)
        linked += found.linked
        arrows += directions(found, tiers)
    whole = skeleton(matrix, counted, tests)
    shares = arrows / np.maximum(linked, 1)
    return {
        (i, j): Link(
            linked=bool(whole.linked[i, j]),
            correlation=float(matrix[i, j]),
            weakest=float(whole.weakest[i, j]),
            stability=float(linked[i, j]) / max(resamples, 1),
            forward=float(shares[i, j]),
            backward=float(shares[j, i]),
        )
        for i, j in itertools.combinations(range(count), 2)
    }


def _drawn_anew(moments: Moments, resamples: int) -> list[Matrix]:
    """Return the correlations of as many blocks drawn at random, again and again."""
    blocks = len(moments.sizes)
    random = np.random.default_rng(0)
    shares = np.full(blocks, 1 / blocks)
    weights = [random.multinomial(blocks, shares).astype(np.float64) for _ in range(resamples)]
    return [np.nan_to_num(moments.correlations(drawn)[1]) for drawn in weights]


def _design_effect(drawn: list[Matrix], size: float) -> float:
    """Return how many rows count as one, as rows of a block are alike: 1 or more.

    The variance of correlations over blocks drawn anew, by that of independent rows (Kish 1965); the
    median over all pairs.
    """
    pairs = np.triu_indices(len(drawn[0]) if drawn else 0, 1)
    if len(drawn) < 2 or not len(pairs[0]):
        return 1.0
    found = np.arctanh(np.clip([matrix[pairs] for matrix in drawn], -1 + 1e-12, 1 - 1e-12))
    return max(1.0, float(np.median(found.var(axis=0)) * (size - 3)))


def partial_correlation(matrix: Matrix, first: int, second: int, given: tuple[int, ...]) -> float:
    """Return the correlation of two variables while others are held fixed.

    With P the inverse of the matrix of all of them, it is -P01 / sqrt(P00 P11) (Lauritzen, Graphical Models, 1996);
    0 where a variable does not vary.
    """
    if not given:
        return float(matrix[first, second])
    chosen = [first, second, *given]
    inverse = np.linalg.pinv(matrix[np.ix_(chosen, chosen)], hermitian=True)
    scale = inverse[0, 0] * inverse[1, 1]
    return float(-inverse[0, 1] / math.sqrt(scale)) if scale > 0 else 0.0


def skeleton(matrix: Matrix, size: float, tests: Tests) -> Skeleton:
    """Link all variables that no set of their neighbours separates.

    Args:
        matrix: correlations of all pairs, (variables, variables); 0 of one that does not vary.
        size: how many independent rows they are of.
        tests: when a correlation counts as none.
    """
    count = len(matrix)
    linked = ~np.eye(count, dtype=bool)
    weakest = matrix.copy()
    separators: dict[tuple[int, int], tuple[int, ...]] = {}
    for depth in range(tests.most_given + 1):
        neighbours = linked.copy()
        for first, second in itertools.combinations(range(count), 2):
            if not linked[first, second]:
                continue
            for given in _sets(neighbours, first, second, depth):
                found = partial_correlation(matrix, first, second, given)
                if abs(found) < abs(weakest[first, second]):
                    weakest[first, second] = weakest[second, first] = found
                if tests.absent(found, size, depth):
                    linked[first, second] = linked[second, first] = False
                    separators[first, second] = given
                    break
    return Skeleton(linked, weakest, separators)


def _sets(neighbours: Matrix, first: int, second: int, size: int) -> Iterator[tuple[int, ...]]:
    """Yield sets of so many neighbours of either variable."""
    seen = set()
    for one, other in ((first, second), (second, first)):
        around = [int(place) for place in np.flatnonzero(neighbours[one]) if place != other]
        for given in itertools.combinations(around, size):
            if given not in seen:
                seen.add(given)
                yield given


def directions(found: Skeleton, tiers: list[int]) -> Matrix:
    """Direct the links that can be: by tiers, by colliders, and by what these leave no choice.

    Args:
        found: the links.
        tiers: for each variable a number; none is caused by one of a higher number.

    Returns:
        Whether the variable of the row causes that of the column; a link that is directed in neither
        way may go either.
    """
    count = len(tiers)
    arrows = np.zeros((count, count), dtype=bool)
    order = np.asarray(tiers)
    arrows |= found.linked & (order[:, None] < order[None, :])
    for middle in range(count):
        around = np.flatnonzero(found.linked[middle])
        for first, second in itertools.combinations(around.tolist(), 2):
            pair = (min(first, second), max(first, second))
            if found.linked[first, second] or middle in found.separators.get(pair, (middle,)):
                continue
            for end in (first, second):
                if not arrows[middle, end] and tiers[end] <= tiers[middle]:
                    arrows[end, middle] = True
    return _forced(found.linked, arrows & ~arrows.T)


def _forced(linked: Matrix, arrows: Matrix) -> Matrix:
    """Add arrows without which there would be a new collider or a circle (rules 1 and 2 of Meek 1995)."""
    changed = True
    while changed:
        changed = False
        for first, second in np.argwhere(linked & ~arrows & ~arrows.T).tolist():
            into = np.flatnonzero(arrows[:, first])
            collider = any(not linked[cause, second] for cause in into if cause != second)
            circle = bool((arrows[first] & arrows[:, second]).any())
            if collider or circle:
                arrows[first, second] = changed = True
                break
    return arrows
