"""Exact set algebra on half-open intervals of integer time, by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import changes, last_at_or_before, order_by, running_highest
from pasta.pipeline.kernels.ranges import repeated


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


def cut_inside(intervals: Intervals, edge_groups: Any, edges: Any) -> tuple[Any, Any, Any]:
    """Cut intervals at each edge of their group that lies within them.

    Args:
        intervals: any; one that is empty stays as it is.
        edge_groups: group of each edge.
        edges: times, in any order, equal ones too.

    Returns:
        The row, start and end of each piece, in order of the rows and of time.
    """
    xp = array_namespace(intervals.starts)
    order = order_by(edge_groups, edges)
    differ = changes(edge_groups[order], edges[order])
    edge_groups, edges = edge_groups[order][differ], edges[order][differ]
    outside = xp.searchsorted(edge_groups, intervals.groups, side="left") - 1
    first, last = (
        xp.maximum(last_at_or_before(edge_groups, edges, intervals.groups, times), outside)
        for times in (intervals.starts, intervals.ends - 1)
    )
    rows, places = repeated(xp.maximum(last - first, 0) + 1)
    if not len(edges):
        return rows, intervals.starts, intervals.ends
    before = first[rows] + places
    begins, closes = xp.maximum(before, 0), xp.minimum(before + 1, len(edges) - 1)
    starts = xp.where(places == 0, intervals.starts[rows], edges[begins])
    ends = xp.where(before >= last[rows], intervals.ends[rows], edges[closes])
    return rows, starts, ends


def lasting_together(intervals: Intervals, at_least: int) -> Intervals:
    """Return when at least so many intervals of a group last, in order of group and start.

    Pieces are cut where an interval begins or ends, and may touch.
    """
    xp = array_namespace(intervals.starts)
    groups = xp.concatenate([intervals.groups, intervals.groups])
    times = xp.concatenate([intervals.starts, intervals.ends])
    steps = xp.ones(len(times), dtype=xp.int64)
    steps[len(intervals.starts) :] = -1
    order = order_by(groups, times)
    groups, times, held = groups[order], times[order], xp.cumsum(steps[order])
    inside = (groups[1:] == groups[:-1]) & (times[1:] > times[:-1]) & (held[:-1] >= at_least)
    return Intervals(groups[:-1][inside], times[:-1][inside], times[1:][inside])


def lengthening(intervals: Intervals) -> Any:
    """Return what each interval adds to the union of those of its group that start before it.

    Of those that start together the first comes first. The sum over a group is its union's length.
    """
    xp = array_namespace(intervals.starts)
    order = order_by(intervals.groups, intervals.starts)
    groups, starts, ends = intervals.where(order)
    by_end, places = order_by(groups, ends), xp.empty(len(order), dtype=xp.int64)
    places[by_end] = xp.arange(len(order))
    reached = xp.roll(ends[by_end[running_highest(places)]], 1)
    covered = xp.where(changes(groups), starts, xp.maximum(starts, reached))
    added = xp.empty(len(order), dtype=xp.int64)
    added[order] = xp.maximum(ends - covered, 0)
    return added


def measure_within(pieces: Intervals, groups: Any, starts: Any, ends: Any) -> Any:
    """Return how much of `[starts, ends)` lies in disjoint pieces of the same group.

    Args:
        pieces: in order of group and start.
        groups: group of each question.
        starts: its start.
        ends: its end, not before its start.
    """
    return _measure_before(pieces, groups, ends) - _measure_before(pieces, groups, starts)


def _measure_before(pieces: Intervals, groups: Any, times: Any) -> Any:
    """Return how much of the pieces of a group lies before each time, but for a term of the group."""
    xp = array_namespace(times)
    if not len(pieces.starts):
        return xp.zeros(len(times), dtype=xp.int64)
    before = xp.append(xp.zeros(1, dtype=xp.int64), xp.cumsum(pieces.lengths))
    last = last_at_or_before(pieces.groups, pieces.starts, groups, times)
    inside = xp.minimum(times, pieces.ends[last]) - pieces.starts[last]
    first = xp.searchsorted(pieces.groups, groups, side="left")
    return xp.where(last >= 0, before[last] + inside, before[first])
