"""What a worker does with a shard, and with the states that shards leave.

These functions run in processes of a cluster, on what they are given and nothing else.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

from pasta.errors import EngineError
from pasta.pipeline.engines.timings import timed_reading
from pasta.pipeline.graph import Graph
from pasta.pipeline.placement import Placement
from pasta.pipeline.shards import Shard
from pasta.pipeline.stage import Merge

Frames = dict[str, pl.DataFrame]


@dataclass(frozen=True)
class Work:
    """The part of a graph that runs on shards."""

    graph: Graph
    placement: Placement

    def reached(self, names: Iterable[str]) -> list[str]:
        """Return the targets that rows of any of the inputs `names` can reach."""
        inputs = set(names)
        return [
            target
            for target in self.placement.targets
            if inputs.intersection(self.graph.above(target))
        ]

    def merge(self, name: str) -> Merge:
        """Return how the states of a combined node come together."""
        merge = self.graph.nodes[name].stage.merge
        if merge is None:
            raise EngineError(f"stage '{name}' is not mergeable")
        return merge

    def final(self, name: str, state: pl.LazyFrame) -> pl.LazyFrame:
        """Return the rows of a combined node from its combined state."""
        return self.merge(name).final(state, **self.graph.nodes[name].arguments)

    def gathered(self, name: str, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Return the rows of a shipped node from those of all shards under one another."""
        node = self.graph.nodes[name]
        within = node.stage.within
        if self.placement.places[name] == "rows" or within is None or within.gather is None:
            return rows
        return within.gather(rows, **node.arguments)


def packed(work: Work) -> bytes:
    """Return work as bytes, which the scheduler need not look into for each task."""
    return pickle.dumps(work)


@lru_cache(maxsize=2)
def unpacked(work: bytes) -> Work:
    """Return work from bytes; a worker does so once."""
    found: Work = pickle.loads(work)  # noqa: S301 (from the caller, by way of the scheduler)
    return found


def run_shard(work_bytes: bytes, shard: Shard, topic: str | None = None) -> tuple[Frames, Frames]:
    """Return the rows of the shipped nodes and the states of the combined ones, of one shard.

    With a `topic`, its inputs are read before the rest runs, and when is logged under it.
    """
    work = unpacked(work_bytes)
    graph, placement = work.graph, work.placement
    targets = work.reached(shard.pieces)
    shipped = [name for name in targets if name in placement.shipped]
    combined = [name for name in targets if name in placement.combined]
    sources = {name: graph.nodes[name].sources[0] for name in combined}
    tables = shard.tables(graph)
    if topic is not None:
        tables |= {name: timed_reading(tables[name], topic) for name in shard.pieces}
    plans = graph.unsorted_plan(tables, [*shipped, *sources.values()], collect)
    states = [
        work.merge(name).partial(plans[source], **graph.nodes[name].arguments)
        for name, source in sources.items()
    ]
    frames = collect([*(plans[name] for name in shipped), *states])
    rows = dict(zip(shipped, frames, strict=False))
    return rows, dict(zip(combined, frames[len(shipped) :], strict=True))


def combine_states(work_bytes: bytes, *parts: Mapping[str, pl.DataFrame]) -> Frames:
    """Return one state for each node that any of `parts` has a state of."""
    work = unpacked(work_bytes)
    names = list(dict.fromkeys(name for states in parts for name in states))
    plans = []
    for name in names:
        states = pl.concat([states[name].lazy() for states in parts if name in states])
        plans.append(work.merge(name).combine(states, **work.graph.nodes[name].arguments))
    return dict(zip(names, collect(plans), strict=True))


def part(result: tuple[Frames, Frames], place: int) -> Frames:
    """Return the rows (0) or the states (1) that a shard left."""
    return result[place]


def collect(plans: Sequence[pl.LazyFrame]) -> list[pl.DataFrame]:
    """Run `plans` in one pass over what they share."""
    return pl.collect_all(plans, engine="streaming") if plans else []
