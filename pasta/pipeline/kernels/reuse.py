"""Which row came last before another, and how many distinct things lie between two uses of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import changes, order_by

NEVER = -1

_NODE_BITS = 6
"""Of so many bits 64 comparisons of bytes, next to each other, take less time than passes."""


def last_before(groups: Any, moments: Sequence[Any], chosen: Any) -> Any:
    """Return for each row the last chosen row of its group at an earlier moment.

    Args:
        groups: group of each row; those of one group lie together.
        moments: what tells the moments of a group apart; its rows are in order of time, and those
            of one moment come at once.
        chosen: which rows may be found.

    Returns:
        Rows as int64, -1 where there is none.
    """
    xp = array_namespace(groups)
    if not len(groups):
        return xp.zeros(0, dtype=xp.int64)
    new = changes(groups, *moments)
    start = xp.flatnonzero(new)[xp.cumsum(new) - 1]
    before = xp.cumsum(chosen) - chosen
    found = xp.append(xp.flatnonzero(chosen), -1)[before[start] - 1]
    known = (before[start] > 0) & (groups[found] == groups)
    return xp.where(known, found, NEVER)


def previous_uses(things: Any) -> Any:
    """Return for each use of a thing, in order of time, the use before it, int64; -1: the first."""
    xp = array_namespace(things)
    previous = xp.full(len(things), NEVER, dtype=xp.int64)
    if len(things):
        order = order_by(things)
        again = xp.flatnonzero(~changes(things[order]))
        previous[order[again]] = order[again - 1]
    return previous


def reuse_distances(previous: Any) -> Any:
    """Return how many distinct other things were used since the previous use of the same.

    In between, each thing counts at the first of its uses there, which is the one whose own
    previous use lies before the window. Up to the window's start all previous uses lie before it.
    So the distance of use i with previous use p is the number of uses before i whose own previous
    use lies before p, less the p + 1 uses up to p (Bennett and Kruskal 1975, by counting).

    Args:
        previous: for each use the position of the previous one of the same thing, -1 for none.

    Returns:
        Distances as int64, -1 for first uses.
    """
    xp = array_namespace(previous)
    again = previous >= 0
    used_again = xp.zeros(len(previous), dtype=bool)
    used_again[previous[again]] = True
    rank = (xp.cumsum(used_again) - 1)[previous[again]]
    first_uses = xp.cumsum(~again)[again]
    distances = xp.full(len(previous), NEVER, dtype=xp.int64)
    distances[again] = first_uses + smaller_before(rank) - previous[again] - 1
    return distances


def smaller_before(permutation: Any) -> Any:
    """Return for each element how many before it are smaller.

    From the highest bit down, elements whose higher bits are equal form a node, which takes the
    places of the numbers that it holds. In a node, the elements with the bit count those without it
    before them; then both go, in order, to nodes of their own. One pass for each bit, until nodes are so
    small that each element is compared with all before it.

    Args:
        permutation: the integers from 0 to their count less 1, in any order.
    """
    xp = array_namespace(permutation)
    count = len(permutation)
    kind = xp.int32 if count < 1 << 30 else xp.int64
    values, found = permutation.astype(kind), xp.zeros(count, dtype=kind)
    places, lows = xp.arange(count, dtype=kind), xp.zeros(count + 1, dtype=kind)
    for bit in reversed(range(_NODE_BITS, max(count - 1, 0).bit_length())):
        high = values >> bit & 1
        xp.cumsum(1 - high, dtype=kind, out=lows[1:])
        start = values >> (bit + 1) << (bit + 1)
        before = lows[:-1] - lows[start]
        found += before * high
        goes = start + xp.where(high == 1, places - start - before + (1 << bit), before)
        values, found = _moved(values, goes), _moved(found, goes)
    found += _smaller_in_nodes(values)
    return _moved(found, values)[permutation].astype(xp.int64)


def _smaller_in_nodes(values: Any) -> Any:
    """Return for each element how many before it in its node, of values that differ in the lowest bits, are smaller."""
    xp = array_namespace(values)
    size = 1 << _NODE_BITS
    nodes = xp.zeros(-(-len(values) // size) * size, dtype=xp.uint8)
    nodes[: len(values)] = values & (size - 1)
    places = xp.ascontiguousarray(nodes.reshape(-1, size).T)
    found = xp.zeros_like(places)
    for place in range(1, size):
        found[place] = (places[:place] < places[place]).sum(axis=0, dtype=xp.uint8)
    return found.T.reshape(-1)[: len(values)]


def hits_below(distances: Any, groups: Any, sizes: Any, count: int) -> Any:
    """Return the number of each group's uses whose distance is below each size.

    Args:
        distances: of each use, -1 where there is none.
        groups: group of each use, from 0 to `count` - 1.
        sizes: ascending.
        count: number of groups.

    Returns:
        An int64 array of shape (count, sizes).
    """
    xp = array_namespace(distances)
    again = distances >= 0
    width = len(sizes) + 1
    bins = groups[again] * width + xp.searchsorted(sizes, distances[again], side="right")
    return xp.cumsum(xp.bincount(bins, minlength=count * width).reshape(count, width), axis=1)[
        :, :-1
    ]


def _moved(values: Any, goes: Any) -> Any:
    moved = array_namespace(values).empty_like(values)
    moved[goes] = values
    return moved
