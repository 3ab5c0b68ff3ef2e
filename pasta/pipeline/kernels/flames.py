"""The tree that call stacks make, stack by stack or as they follow each other in time."""

from __future__ import annotations

from typing import Any, NamedTuple

from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import changes, numbered, order_by


class Stacks(NamedTuple):
    """Call stacks, one after the other, each from its outermost frame in.

    Attributes:
        first: where each stack begins in `labels`, int64; after the last stack, where it ends.
        labels: names of frames as integers from 0 on.
    """

    first: Any
    labels: Any


class Flames(NamedTuple):
    """Nodes of a tree of calls, each after its parent; of siblings the first comes first.

    Attributes:
        parents: the parent of each node, -1 for a root.
        labels: its name.
        of_rows: the innermost node of each row.
    """

    parents: Any
    labels: Any
    of_rows: Any


def flames(stacks: Stacks, of_rows: Any, *, in_time: bool) -> Flames:
    """Return the tree in which each row lies at the end of its stack.

    Args:
        stacks: the stacks, none of which is empty.
        of_rows: the stack of each row.
        in_time: rows follow each other in time, and a frame is a new node unless the last node below its
            parent has its name; else frames of one name below one parent are one node, in order of names.
    """
    xp = array_namespace(of_rows)
    width = int(stacks.labels.max()) + 1 if len(stacks.labels) else 1
    first, sizes = stacks.first[of_rows], stacks.first[of_rows + 1] - stacks.first[of_rows]
    nodes = xp.full(len(of_rows), -1, dtype=xp.int64)
    parents, labels, count, depth = [nodes[:0]], [nodes[:0]], 0, 0
    rows = xp.flatnonzero(sizes > 0)
    while len(rows):
        steps = (nodes[rows] + 1) * width + stacks.labels[first[rows] + depth]
        found, places = _runs(steps, width) if in_time else numbered(steps)
        nodes[rows] = count + places
        parents.append(found // width - 1)
        labels.append(found % width)
        count, depth = count + len(found), depth + 1
        rows = rows[sizes[rows] > depth]
    return Flames(xp.concatenate(parents), xp.concatenate(labels), nodes)


def _runs(steps: Any, width: int) -> tuple[Any, Any]:
    """Number runs of equal steps among those of one parent; return the step of each, and the places."""
    xp = array_namespace(steps)
    order = order_by(steps // width)
    new = changes(steps[order])
    places = xp.empty(len(steps), dtype=xp.int64)
    places[order] = xp.cumsum(new) - 1
    return steps[order[new]], places
