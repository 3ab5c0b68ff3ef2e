"""Where each stage of a graph runs, once its rows are cut into shards.

A stage runs on each shard by itself where its results over shards, under one another, are its
result over all rows: row-wise stages on any shards, stages that work within keys on shards that
keep each rank of each trace together. The first mergeable stage on a path leaves a state on each
shard, and states are combined. What comes after needs all rows and runs in one place: the caller.
On shards of rows, a stage that looks rows up in what is made of a few runs too: those are made before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pasta.pipeline.graph import TRACE_COLUMN, Graph, Node

SHARD_KEYS = (TRACE_COLUMN, "rank")
"""The columns that shards by rank do not cut."""

Place = Literal["rows", "ranks", "combined", "before", "caller"]
"""On shards of any rows, on shards of whole ranks, combined from states, on few rows before all shards, on
all rows at once."""

_Arrival = Literal["kept", "own", "undefined", "scrambled"]
_SHARDED = ("rows", "ranks")


@dataclass(frozen=True)
class Placement:
    """Where the nodes of a graph run.

    Attributes:
        places: input or node -> where it runs.
        shipped: nodes whose rows leave the shards.
        combined: nodes whose states leave the shards.
        given: nodes and inputs that every shard reads whole.
        obstacles: node that runs in the caller -> the first node on its path that has to.
    """

    places: Mapping[str, Place]
    shipped: tuple[str, ...]
    combined: tuple[str, ...]
    given: tuple[str, ...]
    obstacles: Mapping[str, str]

    @property
    def targets(self) -> tuple[str, ...]:
        """The nodes that leave something on each shard."""
        return (*self.shipped, *self.combined)

    @property
    def sharded(self) -> set[str]:
        """The nodes that run on shards of whole ranks, or leave a state on any."""
        return {name for name, place in self.places.items() if place in ("ranks", "combined")}

    @property
    def before(self) -> set[str]:
        """The nodes and inputs that shards read whole, if at all."""
        return {name for name, place in self.places.items() if place == "before"}

    @property
    def by_rank(self) -> bool:
        """Whether the shards must not cut ranks."""
        return "ranks" in self.places.values()


def place(
    graph: Graph, wanted: Iterable[str], *, by_rank: bool, few: Collection[str] = ()
) -> Placement:
    """Decide where each node runs that `wanted` needs.

    Args:
        graph: the graph.
        wanted: nodes whose rows are asked for.
        by_rank: whether there are shards of whole ranks; else there are shards of any rows.
        few: inputs of so few rows that each shard of rows may read all of them.
    """
    wanted = list(wanted)
    needed = graph.needed(wanted)
    lasting = _lasting_keys(graph) if by_rank else {}
    arrivals = _arrivals(graph, needed)
    pinned: set[str] = set()
    few = set() if by_rank else _only_looked_up(graph, needed, few)
    while True:
        places = _places(graph, needed, lasting, pinned, few, by_rank=by_rank)
        shipped = _shipped(graph, needed, wanted, places)
        scrambled = {name for name in shipped if arrivals[name] == "scrambled"}
        if not scrambled:
            break
        pinned |= scrambled
    combined = tuple(name for name in needed if places[name] == "combined")
    given = _given(graph, combined, places)
    return Placement(places, shipped, combined, given, _obstacles(graph, needed, places))


def array_states(graph: Graph, wanted: Iterable[str], known: Collection[str]) -> Placement:
    """Return a placement on shards of rows in which mergeable array stages alone leave states.

    It is for those who stream all other stages. What is `known` has run already.
    """
    wanted = list(wanted)
    placement, needed = place(graph, wanted, by_rank=False), graph.needed(wanted, known)
    arrays = (
        name for name in placement.combined if name in needed and graph.nodes[name].stage.array
    )
    return replace(placement, combined=tuple(arrays))


def _places(
    graph: Graph,
    needed: Sequence[str],
    lasting: Mapping[str, set[str]],
    pinned: set[str],
    few: set[str],
    *,
    by_rank: bool,
) -> dict[str, Place]:
    """Return where each node runs; what is `pinned` runs in the caller."""
    places: dict[str, Place] = {name: "before" if name in few else "rows" for name in graph.inputs}
    renumbered: set[str] = set()
    for name in needed:
        node = graph.nodes[name]
        sources = {places[source] for source in node.sources}
        places[name] = "caller"
        if sources == {"before"} or _looks_up(node, places):
            places[name] = places[node.sources[0]]
            continue
        if not sources or not sources.issubset(_SHARDED) or name in pinned:
            continue
        if not renumbered.isdisjoint(node.sources):
            continue
        if node.kind == "row-wise":
            places[name] = "ranks" if "ranks" in sources else "rows"
        elif by_rank and _keeps_ranks_apart(node, lasting):
            places[name] = "ranks"
            if node.stage.within is not None and node.stage.within.renumbers:
                renumbered.add(name)
        elif node.kind == "mergeable" and len(node.sources) == 1:
            places[name] = "combined"
    return places


def _looks_up(node: Node, places: Mapping[str, Place]) -> bool:
    """Whether a node looks each row of a shard up in what was made before."""
    return (
        node.stage.looks_up
        and places[node.sources[0]] == "rows"
        and all(places[source] == "before" for source in node.sources[1:])
    )


def _only_looked_up(graph: Graph, needed: Sequence[str], few: Collection[str]) -> set[str]:
    """Return those of the inputs `few` that rows of others meet nowhere but in stages that look them up."""
    found = set(few)
    while found:
        places = _places(graph, needed, {}, set(), found, by_rank=False)
        met = {
            source
            for name in needed
            if not _looks_up(graph.nodes[name], places)
            and any(places[source] == "rows" for source in graph.nodes[name].sources)
            for source in graph.nodes[name].sources
            if places[source] == "before"
        }
        if not met:
            break
        found -= {above for name in met for above in graph.above(name)}
    return found


def _given(graph: Graph, combined: Sequence[str], places: Mapping[str, Place]) -> tuple[str, ...]:
    """Return what was made before that nodes on the way to the `combined` ones look up."""
    above = {name for target in combined for name in graph.above(target)}
    read = [
        source
        for name in graph.nodes
        if name in above and places[name] in _SHARDED
        for source in graph.nodes[name].sources
        if places[source] == "before"
    ]
    return tuple(dict.fromkeys(read))


def _keeps_ranks_apart(node: Node, lasting: Mapping[str, set[str]]) -> bool:
    """Whether the rows of one rank do not affect those of another in this node."""
    if node.stage.within is None:
        return False
    keys = set(node.stage.within.keys(node.arguments))
    return all(keys.intersection(lasting[source]).issuperset(SHARD_KEYS) for source in node.sources)


def _lasting_keys(graph: Graph) -> dict[str, set[str]]:
    """Return which of the shards' keys still say, at each node, which shard a row is of."""
    schemas = graph.schemas
    lasting = {name: set(SHARD_KEYS) for name in graph.inputs}
    for name, node in graph.nodes.items():
        lasting[name] = {
            key
            for key in SHARD_KEYS
            if key in schemas[name]
            and all(key in lasting[source] for source in node.sources)
            and not redefines(node, key)
        }
    return lasting


def redefines(node: Node, column: str) -> bool:
    """Whether a node's arguments may name a new column that takes the place of `column`.

    What is row-wise may keep it under its own name; elsewhere `columns` come from another input.
    """
    for argument, value in node.arguments.items():
        taken = argument == "columns" and node.kind != "row-wise"
        if isinstance(value, Mapping):
            kept = isinstance(value.get(column), str) and value[column] == column
            found = column in value and (taken or not kept)
        elif isinstance(value, list):
            found = taken and column in value
        else:
            found = isinstance(value, str) and value == column
        if found:
            return True
    return False


def _arrivals(graph: Graph, needed: Sequence[str]) -> dict[str, _Arrival]:
    """Tell of each node in which order its rows are when those of all shards follow one another.

    Rows arrive as in an ordinary run where the order of the inputs is kept, and can be put into
    the stage's own order where it says how. After that, or where inputs follow one another, what
    keeps the order of its rows would keep a wrong one.
    """
    found: dict[str, _Arrival] = dict.fromkeys(graph.inputs, "kept")
    for name in needed:
        node = graph.nodes[name]
        followed = [found[source] for source in node.followed]
        if node.stage.order != "kept":
            found[name] = node.stage.order
        elif "undefined" in followed:
            found[name] = "undefined"
        elif followed == ["kept"]:
            found[name] = "kept"
        else:
            found[name] = "scrambled"
    return found


def _shipped(
    graph: Graph, needed: Sequence[str], wanted: Sequence[str], places: Mapping[str, Place]
) -> tuple[str, ...]:
    """Return the nodes on shards of whole ranks that are wanted or feed the caller.

    What is row-wise from the inputs on the caller reads itself: as a plan that costs less than to
    send its rows.
    """
    asked = set(wanted)
    for name in needed:
        if places[name] == "caller":
            asked.update(graph.nodes[name].sources)
    return tuple(name for name in needed if name in asked and places[name] == "ranks")


def _obstacles(graph: Graph, needed: Sequence[str], places: Mapping[str, Place]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in needed:
        if places[name] == "caller":
            above = [
                found.get(source, source)
                for source in graph.nodes[name].sources
                if places[source] in ("combined", "caller")
            ]
            found[name] = above[0] if above else name
    return found
