"""Which stages of a graph run on slices of time.

A stage of intervals does so by itself where it reads rows of the inputs that were only filtered:
by row-wise stages, and by a join that asks whether a row has a partner, whose right side every slice
reads whole. The first mergeable stage after it leaves a state for each slice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pasta.pipeline.graph import Graph
from pasta.pipeline.placement import place, redefines
from pasta.pipeline.run import Source
from pasta.pipeline.shards import Shard, ShardedInputs

_TIMES = ("ts", "dur")


@dataclass(frozen=True)
class Slicing:
    """What of a graph runs on slices.

    Attributes:
        timed: stage of intervals -> the inputs whose rows are sliced for it.
        whole: those of the stages whose rows are needed; of the others only what follows.
        combined: node whose states leave the slices -> the stage of intervals that it follows.
        nodes: all nodes that run on slices, and those that feed them.
    """

    timed: Mapping[str, frozenset[str]]
    whole: tuple[str, ...]
    combined: Mapping[str, str]
    nodes: frozenset[str]


def find_slicing(
    graph: Graph, wanted: Iterable[str], known: Collection[str] = ()
) -> Slicing | None:
    """Return what runs on slices of what the `wanted` nodes need; `None` where nothing does.

    What is `known` has run already.
    """
    wanted = list(wanted)
    needed = graph.needed(wanted, known)
    timed = {name: found for name in needed if (found := _timed(graph, name))}
    if not timed:
        return None
    origin = {name: name for name in timed}
    combined: dict[str, str] = {}
    for name in needed:
        node = graph.nodes[name]
        if len(node.sources) != 1 or node.sources[0] not in origin:
            continue
        if node.kind == "row-wise":
            origin[name] = origin[node.sources[0]]
        elif node.kind == "mergeable":
            combined[name] = origin[node.sources[0]]
    later = graph.needed(wanted, {*timed, *combined, *known})
    asked = {*wanted, *(source for name in later for source in graph.nodes[name].sources)}
    above = {source for name in timed for source in graph.above(name)}
    return Slicing(
        timed,
        tuple(name for name in timed if name in asked),
        combined,
        frozenset({*above, *origin, *combined}),
    )


def cut_slices(graph: Graph, sources: Sequence[Source], slicing: Slicing, rows: int) -> list[Shard]:
    """Cut the inputs of a graph into slices of about `rows` rows; of whole ranks, if they may be.

    Returns:
        The slices; none where there would be one.
    """
    inputs = ShardedInputs(graph, sources, [name for name in graph.inputs if name in slicing.nodes])
    timed = {name for names in slicing.timed.values() for name in names}
    if inputs.rows(timed) <= rows:
        return []
    places = place(graph, slicing.timed, by_rank=True).places
    by_rank = all(places[name] == "ranks" for name in slicing.timed)
    found = inputs.by_time(rows, timed, by_rank=by_rank)
    return found if len(found) > 1 else []


def _timed(graph: Graph, name: str) -> frozenset[str]:
    """Return the inputs whose rows a stage of intervals reads, with their times; none, if it may not."""
    node = graph.nodes[name]
    sliced, given = node.stage.sliced, node.arguments
    if sliced is None or not sliced.applies(given):
        return frozenset()
    above = graph.above(name) - {name} - graph.inputs.keys()
    if (given["start"], given["duration"]) != _TIMES or not all(
        _filters(graph, other) for other in above
    ):
        return frozenset()
    found, open_ends = set(), list(node.sources)
    while open_ends:
        source = open_ends.pop()
        if source in graph.inputs:
            found.add(source)
        else:
            before = graph.nodes[source]
            open_ends += before.sources if before.kind == "row-wise" else before.sources[:1]
    return frozenset(found)


def _filters(graph: Graph, name: str) -> bool:
    """Whether a node's rows are rows of its (first) source, with their times."""
    node = graph.nodes[name]
    asks = node.stage.name == "join" and node.arguments["how"] in ("semi", "anti")
    return (node.kind == "row-wise" or asks) and not (
        node.stage.array or any(redefines(node, column) for column in _TIMES)
    )
