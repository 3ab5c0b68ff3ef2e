"""How often each value occurs in each group, order statistics of that, and windows of time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import (
    ascending,
    changes,
    highest_in_runs,
    order_by,
    run_sums,
    sorted_with,
)

_LARGEST = (1 << 63) - 1


@dataclass(frozen=True, eq=False)
class Counts:
    """Distinct integer values of each group, in order of group and value, and how often each occurs."""

    groups: Any
    values: Any
    counts: Any

    @cached_property
    def first(self) -> Any:
        """The first row of each group."""
        return array_namespace(self.groups).flatnonzero(changes(self.groups))

    @cached_property
    def running(self) -> Any:
        """How many values there are up to each row, equal ones included."""
        return array_namespace(self.counts).cumsum(self.counts)

    @cached_property
    def sizes(self) -> Any:
        """How many values each group has, equal ones included."""
        return self.sums(self.counts)

    def sums(self, amounts: Any) -> Any:
        """Return the sum of an amount of each row for each group."""
        return run_sums(amounts, self.first)

    def spread(self, by_group: Any) -> Any:
        """Return a number of each group for each row of it."""
        return by_group[self.groups]


def counted(groups: Any, values: Any) -> Counts:
    """Count equal values of each group.

    Args:
        groups: from 0 on.
        values: integers; where groups and values fit 63 bits together, they are sorted as one.
    """
    xp = array_namespace(values)
    width = _width(groups, values)
    if width is None:
        return merged(groups, values, xp.ones(len(values), dtype=xp.int64))
    lowest = values.min()
    keys = ascending(groups * width + (values - lowest))
    first = xp.flatnonzero(changes(keys))
    counts = xp.diff(xp.append(first, len(keys)))
    groups, values = xp.divmod(keys[first], width)
    return Counts(groups, values + lowest, counts)


def merged(groups: Any, values: Any, counts: Any) -> Counts:
    """Add up the counts of equal values of each group, in any order.

    Args:
        groups: from 0 on.
        values: integers; where groups and values fit 63 bits together, they are sorted as one.
        counts: how often each occurs.
    """
    xp = array_namespace(values)
    width = _width(groups, values)
    if width is None:
        order = order_by(groups, values)
        groups, values = groups[order], values[order]
        first = xp.flatnonzero(changes(groups, values))
        return Counts(groups[first], values[first], run_sums(counts[order], first))
    lowest = values.min()
    keys, counts = sorted_with(groups * width + (values - lowest), counts)
    first = xp.flatnonzero(changes(keys))
    groups, values = xp.divmod(keys[first], width)
    return Counts(groups, values + lowest, run_sums(counts, first))


def _width(groups: Any, values: Any) -> int | None:
    """Return how many values there could be; `None` where a group and a value are too much for 63 bits."""
    if not len(values):
        return None
    width = int(values.max()) - int(values.min()) + 1
    return width if (int(groups.max()) + 1) * width <= _LARGEST else None


def fourths(counts: Counts, quarter: int) -> Any:
    """Return a quartile of each group, between two values linear, rounded half up: integers.

    The definition is the 7th of Hyndman and Fan (1996).

    Args:
        counts: values of groups from 0 on, none of which is empty.
        quarter: 1, 2 (the median) or 3.
    """
    xp = array_namespace(counts.values)
    sizes = counts.sizes
    before = xp.cumsum(sizes) - sizes
    place, rest = xp.divmod(quarter * (sizes - 1), 4)
    lower, upper = (
        counts.values[xp.searchsorted(counts.running, before + position, side="right")]
        for position in (place, xp.minimum(place + 1, sizes - 1))
    )
    return lower + ((upper - lower) * rest + 2) // 4


def tick(values: Any) -> int:
    """Return the greatest common divisor of all values: what a clock that counted them tells apart."""
    found = int(abs(values).max()) if len(values) else 0
    while found > 1 and len(values := values[values % found != 0]):
        found = math.gcd(found, int(values[0]))
    return found


def deviations(counts: Counts, centres: Any) -> Counts:
    """Count how far the values of each group are from its centre."""
    return merged(counts.groups, abs(counts.values - counts.spread(centres)), counts.counts)


def extremes(groups: Any, times: Any) -> tuple[Any, Any]:
    """Return the least and the largest time of each group from 0 on, none of which is empty."""
    if not bool(groups.any()):
        return times.min()[None], times.max()[None]
    order = order_by(groups)
    first = array_namespace(times).flatnonzero(changes(groups[order]))
    ordered = times[order]
    return -highest_in_runs(-ordered, first), highest_in_runs(ordered, first)


def largest_at(places: Any, values: Any, count: int) -> Any:
    """Return the largest of `values` for each place from 0 to `count` - 1, none of which is empty.

    Compared as unsigned above the least, since cupy cannot do so with signed integers.
    """
    xp = array_namespace(values)
    found = xp.zeros(count, dtype=xp.uint64)
    if not len(values):
        return found.view(xp.int64)
    lowest = values.min()
    xp.maximum.at(found, places, (values - lowest).view(xp.uint64))
    return found.view(xp.int64) + lowest


def window_bits(first: Any, last: Any, most: int, bits: Any) -> Any:
    """Return how often the length of windows doubles until at most `most` hold all times.

    A window begins at a multiple of its length, so that each is one or two halves of equal length, and
    parts of a set of times need no longer windows than the whole.

    Args:
        first: least time of each clock.
        last: largest time of each clock.
        most: windows that there may be.
        bits: windows have lasted two to this power so far.
    """
    while bool((wide := (last >> bits) - (first >> bits) >= most).any()):
        bits = bits + wide
    return bits
