"""Exact set algebra on half-open intervals of integer time, by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import changes, order_by


class Intervals(NamedTuple):
    """Intervals `[starts, ends)` in ns, each in an integer group from 0 on."""

    groups: Any
    starts: Any
    ends: Any

    @property
    def lengths(self) -> Any:
        """Their durations.

        Raises:
            OverflowError: one is longer than 64 bits can hold.
        """
        lengths = self.ends - self.starts
        if bool(((lengths < 0) & (self.ends > self.starts)).any()):
            raise OverflowError("an interval is longer than 64 bits can hold")
        return lengths

    def where(self, chosen: Any) -> Intervals:
        """Return those that a mask or row numbers choose."""
        return Intervals(self.groups[chosen], self.starts[chosen], self.ends[chosen])


def union(intervals: Intervals) -> Intervals:
    """Merge intervals of a group that overlap or touch; empty ones vanish.

    With starts and ends sorted apart, the i-th interval to start opens a new run exactly if the i
    ends before it all lie before that start: then whatever started earlier has ended.

    Returns:
        Disjoint intervals that do not touch, in order of group and start.
    """
    lasting = intervals.ends > intervals.starts
    if not bool(lasting.all()):
        intervals = intervals.where(lasting)
    groups, starts, ends = intervals.where(order_by(intervals.groups, intervals.starts))
    ends = ends[order_by(groups, ends)]
    opens = changes(groups)
    opens[1:] |= ends[:-1] < starts[1:]
    closes = array_namespace(starts).roll(opens, -1)
    return Intervals(groups[opens], starts[opens], ends[closes])


def complement(merged: Intervals) -> Intervals:
    """Return what lies between the intervals of a group; `merged` comes from `union`."""
    groups, starts, ends = merged
    inner = groups[1:] == groups[:-1]
    return Intervals(groups[1:][inner], ends[:-1][inner], starts[1:][inner])


def coverage(kinds: Sequence[Intervals]) -> tuple[Intervals, Any]:
    """Cut each group's time where any kind begins or ends and tell which kinds cover each piece.

    Args:
        kinds: up to 62 sets of intervals, each from `union`.

    Returns:
        The pieces from a group's first start to its last end, in order, and a bit mask for each:
        bit k is set where kind k covers it.
    """
    xp = array_namespace(kinds[0].starts)
    groups = xp.concatenate([values for kind in kinds for values in (kind.groups, kind.groups)])
    times = xp.concatenate([values for kind in kinds for values in (kind.starts, kind.ends)])
    steps = xp.concatenate(
        [
            xp.full(len(kind.starts), sign << bit, dtype=xp.int64)
            for bit, kind in enumerate(kinds)
            for sign in (1, -1)
        ]
    )
    order = order_by(groups, times)
    groups, times, covered = groups[order], times[order], xp.cumsum(steps[order])
    lasting = (groups[1:] == groups[:-1]) & (times[1:] > times[:-1])
    pieces = Intervals(groups[:-1], times[:-1], times[1:])
    return pieces.where(lasting), covered[:-1][lasting]
