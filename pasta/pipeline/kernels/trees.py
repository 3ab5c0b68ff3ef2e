"""Depths, totals and paths in trees given as the row of each row's parent."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import numbered, order_by


class Tree(NamedTuple):
    """Rows of trees without circles.

    Attributes:
        parents: row of each row's parent, int64; -1 for a root.
        depths: number of ancestors, int64.
        levels: the rows of each depth, from the roots down.
    """

    parents: Any
    depths: Any
    levels: list[Any]


def tree(parents: Any) -> Tree:
    """Return the depths and levels of `parents`; of rows in a circle the first becomes a root."""
    xp = array_namespace(parents)
    depths = _depths(parents)
    if depths is None:
        parents = _without_circles(parents)
        depths = _depths(parents)
    order = order_by(depths)
    deepest = int(depths.max()) if len(depths) else -1
    edges = xp.searchsorted(depths[order], xp.arange(deepest + 2)).tolist()
    levels = [order[low:high] for low, high in itertools.pairwise(edges)]
    return Tree(parents, depths, levels)


def _depths(parents: Any) -> Any:
    """Return the number of ancestors, or `None` if some rows are their own ancestors.

    Each round doubles how far every row has looked up; a last row stands above the roots.
    """
    xp = array_namespace(parents)
    top = len(parents)
    ancestors = xp.append(xp.where(parents < 0, top, parents), top)
    depths = (ancestors < top).astype(xp.int64)
    for _round in range(top.bit_length() + 1):
        if bool((ancestors == top).all()):
            return depths[:-1]
        depths += depths[ancestors]
        ancestors = ancestors[ancestors]
    return None


def _without_circles(parents: Any) -> Any:
    """Return `parents` with the first row of each circle made a root."""
    xp = array_namespace(parents)
    rounds = len(parents).bit_length() + 1
    circling = xp.flatnonzero(in_circles(parents))
    first, ahead = xp.arange(len(parents)), parents.copy()
    for _round in range(rounds):
        first[circling] = xp.minimum(first[circling], first[ahead[circling]])
        ahead[circling] = ahead[ahead[circling]]
    result = parents.copy()
    result[circling[first[circling] == circling]] = -1
    return result


def in_circles(parents: Any) -> Any:
    """Tell of each row whether it is its own ancestor.

    Each round doubles how far every row has looked up; who looks further than there are rows sees circles only.
    """
    xp = array_namespace(parents)
    ancestors = parents.copy()
    for _round in range(len(parents).bit_length() + 1):
        ancestors = xp.where(ancestors >= 0, ancestors[ancestors], -1)
    found = xp.zeros(len(parents), dtype=bool)
    found[ancestors[ancestors >= 0]] = True
    return found


def led_from(parents: Any, marked: Any) -> Any:
    """Tell of each row whether it is marked or an ancestor of one that is; circles do no harm.

    Each round doubles how far the ancestors are that every row marks.
    """
    xp = array_namespace(parents)
    top = len(parents)
    ancestors = xp.append(xp.where(parents < 0, top, parents), top)
    found = xp.append(marked, xp.zeros(1, dtype=bool))
    for _round in range(top.bit_length() + 1):
        found[ancestors[found]] = True
        ancestors = ancestors[ancestors]
    return found[:-1]


def subtree_sums(rows: Tree, values: Any) -> Any:
    """Return for each row the sum of `values` over it and all its descendants."""
    totals = values.copy()
    for level in reversed(rows.levels[1:]):
        _add_at(totals, rows.parents[level], totals[level])
    return totals


def path_sums(rows: Tree, values: Any) -> Any:
    """Return for each row the sum of `values` over it and all its ancestors."""
    totals = values.copy()
    for level in rows.levels[1:]:
        totals[level] += totals[rows.parents[level]]
    return totals


def sums_at(places: Any, values: Any, count: int) -> Any:
    """Return the sum of `values` for each place from 0 to `count` - 1."""
    xp = array_namespace(values)
    sums = xp.zeros(count, dtype=values.dtype)
    _add_at(sums, places, values)
    return sums


def _add_at(sums: Any, places: Any, values: Any) -> None:
    """Add each value at its place; as unsigned, since cupy cannot do so with signed integers."""
    if sums.dtype.kind == "i":
        sums, values = sums.view("u8"), values.view("u8")
    array_namespace(sums).add.at(sums, places, values)


class Paths(NamedTuple):
    """The distinct ways from a root to a row, by name.

    Attributes:
        of_rows: the path of each row.
        parents: the path above each path, -1 for a root's; it comes before the path.
        labels: the last name of each path.
    """

    of_rows: Any
    parents: Any
    labels: Any


def paths(rows: Tree, labels: Any) -> Paths:
    """Number the distinct sequences of `labels`, integers from 0 on, from a root to each row."""
    xp = array_namespace(labels)
    width = int(labels.max()) + 1 if len(labels) else 1
    of_rows = xp.full(len(labels), -1, dtype=xp.int64)
    parents, ends, count = [of_rows[:0]], [of_rows[:0]], 0
    for depth, level in enumerate(rows.levels):
        above = of_rows[rows.parents[level]] if depth else of_rows[level]
        steps, step = numbered((above + 1) * width + labels[level])
        of_rows[level] = count + step
        parents.append(steps // width - 1)
        ends.append(steps % width)
        count += len(steps)
    return Paths(of_rows, xp.concatenate(parents), xp.concatenate(ends))
