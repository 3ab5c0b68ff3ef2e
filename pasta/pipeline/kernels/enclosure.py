"""Which span was innermost on a thread at a time, and how long each was."""

from __future__ import annotations

from typing import Any

from pasta.nesting import enclosing_first, last_reaching
from pasta.pipeline.kernels.intervals import Intervals, union
from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import changes, group_sums, last_at_or_before, order_by

_MOST_CLIMBED = 32


def innermost(spans: Intervals, asked_groups: Any, times: Any) -> Any:
    """Return for each question the row of the innermost span that lasts at the time.

    That is the last span of the group to start, not after the time, that has not ended.

    Args:
        spans: spans, of a thread each; those that end where they start enclose nothing.
        asked_groups: thread of each question.
        times: the moments asked for, int64 ns.

    Returns:
        Rows of the spans as int64, -1 where no span lasts.
    """
    xp = array_namespace(times)
    found = xp.full(len(times), -1, dtype=xp.int64)
    if len(spans.starts) == 0:
        return found
    order = enclosing_first(xp, *spans)
    groups, starts, ends = spans.where(order)
    started = last_at_or_before(groups, starts, asked_groups, times)
    asked = xp.flatnonzero(started >= 0)
    last, times = started[asked], times[asked]
    over = xp.flatnonzero(ends[last] <= times)
    last[over] = _lasting_before(groups, ends, last[over], times[over])
    lasting = last >= 0
    found[asked[lasting]] = order[last[lasting]]
    return found


def _lasting_before(groups: Any, ends: Any, rows: Any, times: Any) -> Any:
    """Return for each of `rows` of spans, over by its time, the last one before it of its group that is not, or -1.

    From a span the climb leads to the last one before it that ends later, and so on. That takes few steps, as spans
    mostly nest, and is done for many rows on processors; what is still open then is sought, as all is on a device,
    where each step would wait for it.
    """
    xp = array_namespace(ends)
    if xp.__name__ != "numpy" or len(rows) <= len(ends):
        return _sought(groups, ends, rows, times)
    later = _sought(groups, ends, xp.arange(len(ends)), ends)
    rows, over = rows.copy(), xp.arange(len(rows))
    for _ in range(_MOST_CLIMBED):
        rows[over] = later[rows[over]]
        over = over[(rows[over] >= 0) & (ends[rows[over]] <= times[over])]
    rows[over] = _sought(groups, ends, rows[over], times[over])
    return rows


def _sought(groups: Any, ends: Any, rows: Any, times: Any) -> Any:
    """Return for each of `rows` the last one before it of its group that ends after its time, or -1."""
    xp = array_namespace(ends)
    first = xp.searchsorted(groups, groups[rows], side="left")
    return last_reaching(xp, ends, rows, first, times + 1)


def self_times(parents: Any, starts: Any, ends: Any) -> Any:
    """Return each span's time in ns that none of its children covers.

    Children count as far as they lie within their parent, and where they overlap once.
    """
    xp = array_namespace(parents)
    children = xp.flatnonzero(parents >= 0)
    above = parents[children]
    first = xp.maximum(starts[children], starts[above])
    last = xp.minimum(ends[children], ends[above])
    order = order_by(above, first)
    covered = Intervals(above[order], first[order], xp.maximum(first, last)[order])
    if not bool((changes(covered.groups)[1:] | (covered.ends[:-1] <= covered.starts[1:])).all()):
        covered = union(covered)
    return ends - starts - group_sums(covered.groups, covered.lengths, len(parents))
