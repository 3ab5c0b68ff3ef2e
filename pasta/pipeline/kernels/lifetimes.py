"""Which release ends which allocation."""

from __future__ import annotations

from typing import Any, NamedTuple

from pasta.pipeline.kernels.intervals import Intervals
from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import changes, distinct, last_at_or_before, order_by


class Matches(NamedTuple):
    """One entry for each lifetime; rows are rows of the events, -1 where there is none."""

    allocation: Any
    ending: Any


def match(places: Any, times: Any, allocates: Any) -> Matches:
    """Pair each allocation with the event at its place that ends it.

    That is the next event there: its release, or an allocation, which shows that a release was
    lost. A release that follows no allocation stands alone.

    Args:
        places: address of each event, numbered per allocator, from 0 on.
        times: time of each event in ns; events of one time count in the order of their rows.
        allocates: whether the event is an allocation; else it is a release.
    """
    xp = array_namespace(places)
    order = order_by(places, times)
    allocates, first = allocates[order], changes(places[order])
    after = xp.append(order[1:], -1)
    has_next = xp.append(~first[1:], True) & (after >= 0)
    began = xp.flatnonzero(allocates)
    alone = ~allocates
    alone[1:] &= first[1:] | ~allocates[:-1]
    ended = order[alone]
    return Matches(
        xp.concatenate([order[began], xp.full(len(ended), -1, dtype=xp.int64)]),
        xp.concatenate([xp.where(has_next[began], after[began], -1), ended]),
    )


def unused_ids(used: Any, count: int) -> Any:
    """Return the first `count` ids from 1 on that are not among `used`, as u64."""
    xp = array_namespace(used)
    taken = distinct(used[used > 0])
    free_below = taken - xp.arange(1, len(taken) + 1, dtype=taken.dtype)
    wanted = xp.arange(1, count + 1, dtype=taken.dtype)
    return wanted + xp.searchsorted(free_below, wanted, side="left").astype(taken.dtype)


def live_amounts(lives: Intervals, amounts: Any, wanted_groups: Any, wanted: Any) -> Any:
    """Return how much is alive at each wanted time: the sum over half-open lifetimes around it.

    Args:
        lives: the lifetimes; one that never ends has the largest int64 as its end.
        amounts: what each of them counts for, as bytes.
        wanted_groups: group of each question.
        wanted: time of each question, ns.
    """
    xp = array_namespace(amounts)
    times = xp.concatenate([lives.starts, lives.ends])
    owners = xp.concatenate([lives.groups, lives.groups])
    order = order_by(owners, times)
    owners, times = owners[order], times[order]
    running = xp.cumsum(xp.concatenate([amounts, -amounts])[order])
    found = last_at_or_before(owners, times, wanted_groups, wanted)
    before = xp.searchsorted(owners, wanted_groups, side="left") - 1
    padded = xp.append(running, xp.zeros(1, dtype=running.dtype))
    return xp.where(found >= 0, padded[found] - padded[before], 0)
