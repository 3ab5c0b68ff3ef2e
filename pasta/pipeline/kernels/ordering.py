"""Sorting, searching and summing by group, with what numpy and cupy have in common.

A group is an integer from 0 on. Nothing here goes through floats.
"""

from __future__ import annotations

from typing import Any

from pasta.pipeline.kernels.namespace import array_namespace


def order_by(*keys: Any) -> Any:
    """Return the rows in order of `keys`, the first of which weighs most; ties keep their order."""
    xp = array_namespace(keys[0])
    order = xp.arange(len(keys[0]))
    for key in reversed(keys):
        if _is_sorted(key[order]):
            continue
        order = order[xp.argsort(_narrow(xp, key)[order], kind="stable")]
    return order


def _is_sorted(values: Any) -> bool:
    return bool((values[1:] >= values[:-1]).all())


def _narrow(xp: Any, key: Any) -> Any:
    """Return `key` in 16 bits where that holds it: numpy sorts those in linear time."""
    if key.dtype.itemsize > 2 and int(key.min()) >= 0 and int(key.max()) < 1 << 16:
        return key.astype(xp.uint16)
    return key


def changes(*keys: Any) -> Any:
    """Tell for each row whether it differs from the one before it in any of `keys`."""
    xp = array_namespace(keys[0])
    changed = xp.ones(len(keys[0]), dtype=bool)
    if len(changed):
        changed[1:] = False
        for key in keys:
            changed[1:] |= key[1:] != key[:-1]
    return changed


def last_at_or_before(groups: Any, values: Any, wanted_groups: Any, wanted: Any) -> Any:
    """Return the position of the last value of the same group that is not above the wanted one.

    Args:
        groups: group of each value.
        values: sorted within each group; groups ascend.
        wanted_groups: group of each question.
        wanted: the value asked for.

    Returns:
        A position for each question as int64, -1 where the group has no such value.
    """
    xp = array_namespace(values)
    if len(values) == 0:
        return xp.full(len(wanted), -1, dtype=xp.int64)
    distinct = xp.unique(values)
    width = len(distinct) + 1
    keys = groups * width + xp.searchsorted(distinct, values, side="left") + 1
    questions = wanted_groups * width + xp.searchsorted(distinct, wanted, side="right")
    found = xp.searchsorted(keys, questions, side="right") - 1
    inside = (found >= 0) & (groups[xp.maximum(found, 0)] == wanted_groups)
    return xp.where(inside, found, -1)


def group_sums(groups: Any, values: Any, count: int) -> Any:
    """Return the sum of `values` for each group from 0 to `count` - 1; `groups` is sorted."""
    xp = array_namespace(values)
    running = xp.concatenate([xp.zeros(1, dtype=values.dtype), xp.cumsum(values)])
    edges = xp.searchsorted(groups, xp.arange(count + 1))
    return running[edges[1:]] - running[edges[:-1]]
