"""Sequences of equal items that recur in lanes, without overlap."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import numbered, order_by
from pasta.pipeline.kernels.trees import led_from, sums_at


class Sequences(NamedTuple):
    """The distinct sequences of one length.

    Attributes:
        length: number of items.
        first: place of the first item of the first occurrence of each sequence.
        times: occurrences of each that do not overlap, over all lanes.
        of_occurrences: the sequence of each such occurrence.
        starts: place of the first item of each.
        closed: whether no sequence of one item more holds it as often; of the greatest length all are.
    """

    length: int
    first: Any
    times: Any
    of_occurrences: Any
    starts: Any
    closed: Any


def recurring(lanes: Any, items: Any, longest: int) -> Iterator[Sequences]:
    """Give the sequences of 2 to `longest` items, lane by lane.

    Args:
        lanes: lane of each place, in order.
        items: item of each place, from 0 on.
        longest: greatest length.
    """
    before: Sequences | None = None
    codes, width = items, int(items.max()) + 1 if len(items) else 1
    for length in range(2, longest + 1):
        follows = codes[:-1] * width + items[length - 1 :]
        one_lane = lanes[: len(follows)] == lanes[length - 1 :]
        _, codes_here = numbered(_without(follows, one_lane))
        found = _counted(codes_here, lanes, one_lane, length)
        if before is not None:
            yield before._replace(closed=_closed(before, found, codes))
        before, codes = found, codes_here
    if before is not None:
        yield before


def _without(codes: Any, kept: Any) -> Any:
    """Return codes in which all that is not kept has one code of its own."""
    return array_namespace(codes).where(kept, codes, -1)


def _counted(codes: Any, lanes: Any, one_lane: Any, length: int) -> Sequences:
    """Count sequences: of those that overlap, from each lane's first on, the next that does not."""
    xp = array_namespace(codes)
    places = xp.flatnonzero(one_lane)
    order = places[order_by(codes[places], places)]
    keys, found = codes[order] * (len(codes) + length), codes[order]
    following = xp.searchsorted(keys + order, keys + order + length)
    inside = xp.minimum(following, max(len(order) - 1, 0))
    same = (following < len(order)) & (found[inside] == found) & (lanes[order[inside]] == lanes[order])  # fmt: skip
    change = (found[1:] != found[:-1]) | (lanes[order[1:]] != lanes[order[:-1]])
    begins = xp.append(xp.ones(min(len(order), 1), dtype=bool), change)
    chosen = led_from(xp.where(same, inside, -1), begins)
    count = int(codes.max()) + 1 if len(codes) else 0
    first = xp.full(count, -1, dtype=xp.int64)
    fresh = xp.append(xp.ones(min(len(order), 1), dtype=bool), found[1:] != found[:-1])
    first[found[fresh]] = order[fresh]
    times = sums_at(found[chosen], xp.ones(int(chosen.sum()), dtype=xp.int64), count)
    return Sequences(length, first, times, found[chosen], order[chosen], first >= 0)


def _closed(shorter: Sequences, longer: Sequences, codes: Any) -> Any:
    """Tell which shorter sequences no longer one holds as often; `codes` are the shorter ones' by place."""
    closed = shorter.closed.copy()
    known = longer.first >= 0
    for offset in (0, 1):
        held = codes[longer.first[known] + offset]
        closed[held[shorter.times[held] == longer.times[known]]] = False
    return closed
