"""Where each stage of a graph runs, in words."""

from __future__ import annotations

from collections.abc import Iterable

from pasta.pipeline.graph import Graph
from pasta.pipeline.grouping import Grouping, find_grouping
from pasta.pipeline.placement import Placement, place


def describe(graph: Graph, wanted: Iterable[str]) -> list[str]:
    """Return a line for each stage: where it runs, and which stage forces it into one place."""
    wanted = list(wanted)
    placed, one_rank = (place(graph, wanted, by_rank=by_rank) for by_rank in (True, False))
    grouping = find_grouping(graph, wanted, placed)
    lines = [
        f"stages.{name}: {_described(graph, name, placed, grouping)}"
        for name in graph.nodes
        if name in placed.places
    ]
    forced = {one_rank.obstacles[n] for n in one_rank.obstacles if placed.places[n] == "ranks"}
    forced = {n for n in forced if placed.places[n] == "ranks"}
    looking = {name for name in forced if graph.nodes[name].stage.looks_up}
    for named, rest in (
        (forced - looking, ""),
        (looking, ", unless they look rows up in few others"),
    ):
        if named:
            names = ", ".join(f"'{name}'" for name in graph.nodes if name in named)
            lines.append(f"of a trace with one rank, all rows meet in the caller for {names}{rest}")
    return lines


def _described(graph: Graph, name: str, placed: Placement, grouping: Grouping | None) -> str:
    found = placed.places[name]
    if grouping is not None and name in (*grouping.nodes, *grouping.combined):
        keys = ", ".join(grouping.keys)
        does = "on cuts" if name in grouping.nodes else "combined: a state for each cut"
        return f"{does} of states by {keys} where they are large, else one worker (the caller)"
    if found == "caller":
        cause = placed.obstacles[name]
        node = graph.nodes[name]
        if cause == name and node.kind == "row-wise":
            return f"one worker (the caller), once the rows of '{node.sources[0]}' are in order"
        if cause == name:
            return f"one worker (the caller): {node.stage.name} needs all rows"
        return f"one worker (the caller), after '{cause}'"
    if found == "combined":
        return "combined: a state for each shard"
    return "sharded by trace and rank" if found == "ranks" else "sharded by rows"
