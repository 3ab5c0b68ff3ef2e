"""Which memory object held an address at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import ascending, distinct, numbered, order_by


class Objects(NamedTuple):
    """Memory objects `[addresses, ends)` that live from `births` until `deaths`.

    Groups are integers from 0 on, addresses u64, times int64 ns. Live objects of a group share no
    address; so a birth tells that whatever held its addresses has died.
    """

    groups: Any
    addresses: Any
    ends: Any
    births: Any
    deaths: Any

    def take(self, rows: Any) -> Objects:
        """Return the objects of `rows`."""
        return Objects(*(values[rows] for values in self))


def locate(objects: Objects, groups: Any, addresses: Any, times: Any | None) -> Any:
    """Return for each question the row of the object that is live and contains the address.

    That is the last object to be born, not after the time, whose addresses contain the one asked
    for, unless it has died. Of several born at once the one that dies first counts.

    The addresses at which objects begin and end cut the address space into segments. Each object
    covers a run of them, and is entered at the few nodes of a binary tree over the segments that
    make up the run. A question finds the last birth in each node above its segment.

    Args:
        objects: the objects, in any order.
        groups: group of each question.
        addresses: address asked for, u64.
        times: when, int64 ns; `None`: whenever, so that the last to be born counts.

    Returns:
        Rows of `objects` as int64, -1 where no object is known.
    """
    xp = array_namespace(addresses)
    result = xp.full(len(addresses), -1, dtype=xp.int64)
    rows = order_by(objects.births, -objects.deaths)
    rows = rows[((objects.ends > objects.addresses) & (objects.deaths > objects.births))[rows]]
    if len(rows) == 0 or len(addresses) == 0:
        return result
    objects = objects.take(rows)
    edges = distinct(xp.concatenate([objects.addresses, objects.ends]))
    segments = xp.searchsorted(edges, addresses, side="right") - 1
    if times is None:
        born = xp.full(len(addresses), len(rows), dtype=xp.int64)
    else:
        born = xp.searchsorted(objects.births, times, side="right")
    inside = xp.flatnonzero((segments >= 0) & (born > 0))
    last = _last_born(objects, edges, groups[inside], segments[inside], born[inside])
    known = last >= 0
    if times is not None:
        known &= times[inside] < objects.deaths[last]
    result[inside[known]] = rows[last[known]]
    return result


def _last_born(objects: Objects, edges: Any, groups: Any, segments: Any, born: Any) -> Any:
    """Return the last of the first `born` objects that covers the segment, -1 where none does.

    Objects are in order of birth. Questions of one segment and time are answered once.
    """
    xp = array_namespace(born)
    leaves, count = len(edges), len(objects.births)
    question = (groups * leaves + segments) * (count + 1) + born
    question, asked = numbered(question)
    groups, segments = xp.divmod(question // (count + 1), leaves)
    born = question % (count + 1)
    entries = _entries(objects, edges)
    last = xp.full(len(question), -1, dtype=xp.int64)
    node = segments + leaves
    while len(node) and int(node.max()) > 0:
        first = (groups * (2 * leaves) + node) * count
        found = entries[xp.searchsorted(entries, first + born, side="left") - 1] - first
        last = xp.maximum(last, xp.where(found < born, found, -1))
        node = node >> 1
    return last[asked]


def _entries(objects: Objects, edges: Any) -> Any:
    """Return (group, node, object) for each node that an object is entered at, in one integer.

    The integer stays below 2 groups x segments x objects, far from 2^63 for what memory can hold.
    """
    xp = array_namespace(edges)
    leaves, count = len(edges), len(objects.births)
    low = xp.searchsorted(edges, objects.addresses) + leaves
    high = xp.searchsorted(edges, objects.ends) + leaves
    groups, position = objects.groups, xp.arange(count)
    entries = []
    while len(low):
        for node, chosen in ((low, low & 1 == 1), (high - 1, high & 1 == 1)):
            entry = (groups * (2 * leaves) + node) * count + position
            entries.append(entry[chosen])
        low, high = (low + 1) >> 1, high >> 1
        going = low < high
        low, high, groups, position = (v[going] for v in (low, high, groups, position))
    return ascending(xp.concatenate(entries))
