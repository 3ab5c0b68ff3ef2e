"""Sorting, searching and summing by group, with what numpy and cupy have in common.

A group is an integer from 0 on. Nothing here goes through floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from pasta.pipeline.kernels.namespace import array_namespace


def ascending(values: Any) -> Any:
    """Return the values in order, not to be written to.

    On processors Polars sorts them: a million in a quarter of numpy's time on two, in half of it on one.
    """
    xp = array_namespace(values)
    if xp.__name__ == "numpy":
        return pl.Series(values).sort().to_numpy()
    return xp.sort(values)


def order_by(*keys: Any) -> Any:
    """Return the rows in order of `keys`, the first of which weighs most; ties keep their order.

    Args:
        keys: int64 or u64.
    """
    xp = array_namespace(keys[0])
    order = xp.arange(len(keys[0]))
    if _in_order(keys):
        return order
    for key in reversed(_packed(keys)):
        so_far = key[order]
        if not _in_order([so_far]):
            order = order[_stable_order(so_far)]
    return order


def _in_order(keys: Sequence[Any]) -> bool:
    """Tell whether the rows are in order of `keys` already, as those of a trace often are."""
    later = keys[-1][1:] >= keys[-1][:-1]
    for key in reversed(keys[:-1]):
        later = (key[1:] > key[:-1]) | ((key[1:] == key[:-1]) & later)
    return bool(later.all())


def _packed(keys: Sequence[Any]) -> Sequence[Any]:
    """Return fewer keys of the same order: those beside each other as one, where with a row's number they fit one integer.

    On a device they are left as they are, since each look at an extreme waits for it.
    """
    xp = array_namespace(keys[0])
    if xp.__name__ != "numpy" or len(keys) == 1:
        return keys
    room = 1 << (63 - len(keys[0]).bit_length())
    packed: list[Any] = []
    taken = room
    for key in reversed(keys):
        lowest = int(key.min())
        width = int(key.max()) - lowest + 1
        if taken * width < room:
            packed[-1] += (key - lowest).astype(xp.int64) * taken
            taken *= width
        elif width < room:
            packed.append((key - lowest).astype(xp.int64))
            taken = width
        else:
            packed.append(key)
            taken = room
    return packed[::-1]


def _stable_order(key: Any) -> Any:
    """Return the rows in order of `key`.

    Where a value and its row fit one integer together, sorting those is several times as fast.
    """
    xp = array_namespace(key)
    lowest, bits = key.min(), len(key).bit_length()
    if int(key.max()) - int(lowest) >= 1 << (63 - bits):
        return xp.argsort(key, kind="stable")
    packed = (key - lowest).astype(xp.int64) << bits | xp.arange(len(key))
    return ascending(packed) & ((1 << bits) - 1)


def sorted_with(keys: Any, amounts: Any) -> tuple[Any, Any]:
    """Return keys, 0 or more, in order, and their amounts; those of equal keys in any order.

    Where a key and an amount fit one integer together, sorting those is several times as fast.
    """
    if _in_order([keys]):
        return keys, amounts
    bits = int(amounts.max()).bit_length()
    if int(amounts.min()) < 0 or int(keys.max()) >= 1 << (63 - bits):
        order = order_by(keys)
        return keys[order], amounts[order]
    packed = keys << bits
    packed |= amounts
    packed = ascending(packed)
    return packed >> bits, packed & ((1 << bits) - 1)


def changes(*keys: Any) -> Any:
    """Tell for each row whether it differs from the one before it in any of `keys`."""
    xp = array_namespace(keys[0])
    changed = xp.ones(len(keys[0]), dtype=bool)
    if len(changed):
        changed[1:] = False
        for key in keys:
            changed[1:] |= key[1:] != key[:-1]
    return changed


def highest_in_runs(values: Any, first: Any) -> Any:
    """Return the highest of `values` in each run of rows, of which `first` are the first rows."""
    xp = array_namespace(values)
    if xp.__name__ == "numpy":
        return xp.maximum.reduceat(values, first)
    runs = xp.zeros(len(values), dtype=xp.int64)
    runs[first[1:]] = 1
    runs = xp.cumsum(runs)
    return values[order_by(runs, values)][xp.append(first[1:], len(values)) - 1]


def running_highest(values: Any) -> Any:
    """Return the highest of `values` up to each row.

    Where the library has no running maximum, each round doubles how far every row has looked back.
    """
    xp = array_namespace(values)
    if xp.__name__ == "numpy":
        return xp.maximum.accumulate(values)
    highest, reach = values.copy(), 1
    while reach < len(values):
        highest[reach:] = xp.maximum(highest[reach:], highest[:-reach])
        reach *= 2
    return highest


def distinct(values: Any) -> Any:
    """Return the distinct values in order."""
    ordered = ascending(values)
    return ordered[changes(ordered)]


def numbered(values: Any) -> tuple[Any, Any]:
    """Return the distinct values in order, and for each value its place among them.

    Values of a narrow range are ticked off in a table, others are sorted.
    """
    xp = array_namespace(values)
    if len(values) and int(values.max()) - int(values.min()) < 4 * len(values):
        lowest = values.min()
        ticked = xp.zeros(int(values.max() - lowest) + 1, dtype=bool)
        ticked[values - lowest] = True
        return xp.flatnonzero(ticked) + lowest, (xp.cumsum(ticked) - 1)[values - lowest]
    order = order_by(values)
    new = changes(values[order])
    places = xp.empty(len(values), dtype=xp.int64)
    places[order] = xp.cumsum(new) - 1
    return values[order[new]], places


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
    if len(wanted) == 0:
        return xp.zeros(0, dtype=xp.int64)
    count = 1 + max(int(groups[-1]), int(wanted_groups.max()))
    ranks, wanted_ranks, width = _ranks(values, wanted, count)
    keys, questions = groups * width + ranks, wanted_groups * width + wanted_ranks
    found = xp.searchsorted(keys, questions, side="right") - 1
    inside = (found >= 0) & (groups[xp.maximum(found, 0)] == wanted_groups)
    return xp.where(inside, found, -1)


def _ranks(values: Any, wanted: Any, groups: int) -> tuple[Any, Any, int]:
    """Return numbers in the order of `values`, comparable numbers for `wanted`, and their count.

    Numbers of values start at 1. Values number themselves where their range for each of so many groups fits
    one integer, as the times of most traces do; else each distinct value is numbered.
    """
    xp = array_namespace(values)
    lowest, highest = int(values.min()), int(values.max())
    if (highest - lowest + 2) * groups < 1 << 63:
        ranks, places = values - lowest, xp.clip(wanted, lowest, highest) - lowest
        ranks, places = (of.astype(xp.int64, copy=False) for of in (ranks, places))
        return ranks + 1, places + (wanted >= lowest), highest - lowest + 2
    known = distinct(values)
    ranks = xp.searchsorted(known, values, side="left") + 1
    return ranks, xp.searchsorted(known, wanted, side="right"), len(known) + 1


def rows_with(groups: Any, ids: Any, wanted_groups: Any, wanted: Any) -> Any:
    """Return the first row of the same group with the wanted id, int64; -1 where there is none."""
    xp = array_namespace(ids)
    if len(ids) == 0 or len(wanted) == 0:
        return xp.full(len(wanted), -1, dtype=xp.int64)
    found = _rows_from_table(groups, ids, wanted_groups, wanted)
    if found is not None:
        return found
    order = order_by(groups, ids)
    order = order[changes(groups[order], ids[order])]
    place = last_at_or_before(groups[order], ids[order], wanted_groups, wanted)
    rows = order[place]
    return xp.where((place >= 0) & (ids[rows] == wanted), rows, -1)


def _rows_from_table(groups: Any, ids: Any, wanted_groups: Any, wanted: Any) -> Any | None:
    """Look up ids in a table, where they lie close together and differ; else return `None`."""
    xp = array_namespace(ids)
    lowest, highest = int(ids.min()), int(ids.max())
    width, rows = highest - lowest + 1, xp.arange(len(ids))
    count = int(xp.maximum(groups.max(), wanted_groups.max())) + 1
    if width * count > 4 * (len(ids) + len(wanted)) + 1024:
        return None
    table = xp.full(width * count, -1, dtype=xp.int64)
    places = groups * width + (ids - lowest)
    table[places] = rows
    if not bool((table[places] == rows).all()):
        return None
    asked = xp.clip(wanted, lowest, highest)
    return xp.where(asked == wanted, table[wanted_groups * width + (asked - lowest)], -1)


def group_sums(groups: Any, values: Any, count: int) -> Any:
    """Return the sum of `values` for each group from 0 to `count` - 1; `groups` is sorted."""
    xp = array_namespace(values)
    first = xp.flatnonzero(changes(groups))
    sums = xp.zeros(count, dtype=values.dtype)
    sums[groups[first]] = run_sums(values, first)
    return sums


def run_sums(values: Any, first: Any) -> Any:
    """Return the sum of `values` in each run of rows, of which `first` are the first rows."""
    xp = array_namespace(values)
    ends = xp.append(first[1:], len(values))[: len(first)]
    running = xp.cumsum(values)[ends - 1]
    return xp.concatenate([running[:1], running[1:] - running[:-1]])
