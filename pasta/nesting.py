"""Which span encloses which: parents on a thread, inferred from start and end alone.

Shared by what writes spans (parents are stored in the trace) and by what analyses them. The code
runs on numpy and on cupy arrays alike.
"""

from __future__ import annotations

import sys
from typing import Any

OVERHANG = 1000
"""A child may end less than this many ns after its parent: clocks are read at different moments."""


def parents(group: Any, start: Any, end: Any, *, overhang: int = OVERHANG) -> Any:
    """Return for each span the row of the innermost span that encloses it.

    The parent is the innermost span of the same group that is open when the child starts and
    ends less than `overhang` ns before the child does; open spans that end sooner are skipped.
    Of two spans with one start the longer encloses the shorter, of two identical ones the earlier
    row the later. A span that ends when another starts does not enclose it.

    Args:
        group: the thread of each span as integers; rows may stand in any order.
        start: start of each span in ns, int64.
        end: end of each span in ns, int64, not before `start`; the start where the span is
            unfinished, since it may have ended at any time and so is taken to enclose nothing.
        overhang: a child may end less than so many ns after its parent.

    Returns:
        The parent's row as int64, -1 where there is none.
    """
    xp = sys.modules[type(start).__module__.partition(".")[0]]
    count = len(start)
    result = xp.full(count, -1, dtype=xp.int64)
    if count < 2:
        return result
    order = enclosing_first(xp, group, start, end)
    group, start, end = group[order], start[order], end[order]
    new_group = xp.ones(count, dtype=bool)
    new_group[1:] = group[1:] != group[:-1]
    position = xp.arange(count)
    first = position[new_group][xp.cumsum(new_group) - 1]
    found = xp.full(count, -1, dtype=xp.int64)
    same_start = ~new_group
    same_start[1:] &= start[1:] == start[:-1]
    found[same_start] = position[same_start] - 1
    limit = xp.maximum(start + 1, end - (overhang - 1))
    searching = xp.flatnonzero(~same_start & _within_reach(xp, new_group, end, limit))
    found[searching] = last_reaching(xp, end, searching, first[searching], limit[searching])
    inside = found >= 0
    result[order[inside]] = order[found[inside]]
    return result


def enclosing_first(xp: Any, group: Any, start: Any, end: Any) -> Any:
    """Return the order by group, start, end from late to early, and row.

    Spans mostly come in order of start and few start together: only those are sorted by end.
    """
    if group.min() >= 0 and group.max() < 1 << 15:
        group = group.astype(xp.int16)  # for which numpy has a radix sort
    order = xp.argsort(start, kind="stable")
    order = order[xp.argsort(group[order], kind="stable")]
    group, start = group[order], start[order]
    tied = (group[1:] == group[:-1]) & (start[1:] == start[:-1])
    places = xp.flatnonzero(xp.append(tied, False) | xp.append(False, tied))
    if len(places):
        run = xp.cumsum(xp.append(True, ~tied))[places]
        rows = order[places]
        by_end = xp.argsort(-end[rows], kind="stable")
        order[places] = rows[by_end[xp.argsort(run[by_end], kind="stable")]]
    return order


def _within_reach(xp: Any, new_group: Any, end: Any, limit: Any) -> Any:
    """Tell which spans may have a parent: an earlier end of their group reaches their limit.

    Ends are cut so that a group's number fits above them and one running maximum serves all
    groups; what is cut away can only make the answer yes.
    """
    number = xp.cumsum(new_group)
    bits = 62 - int(number[-1]).bit_length()
    lowest, highest = end.min(), (1 << bits) - 1
    reach = (number << bits) + xp.minimum(end - lowest, highest)
    needed = (number << bits) + xp.clip(limit - lowest, 0, highest)
    return xp.append(False, _running_maximum(xp, reach)[:-1] >= needed[1:])


def _running_maximum(xp: Any, values: Any) -> Any:
    """Return for each value the largest up to it; cupy has no such function, so it doubles."""
    if xp.__name__ == "numpy":
        return xp.maximum.accumulate(values)
    reached = 1
    while reached < len(values):
        later = xp.maximum(values[reached:], values[:-reached])
        values = xp.concatenate([values[:reached], later])
        reached *= 2
    return values


def last_reaching(xp: Any, end: Any, rows: Any, first: Any, limit: Any) -> Any:
    """Return for each of `rows` the last earlier position whose `end` reaches `limit`.

    Positions before `first` do not count; -1 where there is none. The search climbs a binary tree
    of maxima until a node reaches the limit, then descends in it.
    """
    tree = _maxima(xp, end)
    found = xp.full(len(rows), -1, dtype=xp.int64)
    climbing, node, wanted = xp.arange(len(rows)), rows - 1, limit
    for level, maxima in enumerate(tree):
        left = node & 1 == 0
        reached = left & (maxima[node] >= wanted)
        hits = xp.flatnonzero(reached)
        if len(hits):
            found[climbing[hits]] = _descend(xp, tree, level, node[hits], wanted[hits])
        node = (node - left) >> 1
        going = xp.flatnonzero(~reached & (node >= 0))
        if not len(going):
            break
        climbing, node, wanted = climbing[going], node[going], wanted[going]
    return xp.where(found >= first, found, -1)


def _descend(xp: Any, tree: list[Any], level: int, node: Any, limit: Any) -> Any:
    """Return the last position below `node` of `level` that reaches `limit`."""
    for maxima in reversed(tree[:level]):
        right = 2 * node + 1
        node = right - (maxima[xp.minimum(right, len(maxima) - 1)] < limit)
    return node


def _maxima(xp: Any, values: Any) -> list[Any]:
    """Return `values` and the maxima of its pairs, pairs of pairs and so on, up to one value."""
    tree = [values]
    while len(tree[-1]) > 1:
        below = tree[-1]
        pairs = xp.maximum(below[0 : len(below) - 1 : 2], below[1::2])
        tree.append(xp.concatenate([pairs, below[-1:]]) if len(below) % 2 else pairs)
    return tree
