"""What a worker does with a shard, and with the states that shards leave.

These functions run in processes of a cluster, on what they are given and nothing else.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import polars as pl

from pasta.errors import EngineError
from pasta.pipeline.engines.timings import timed_reading
from pasta.pipeline.graph import Graph
from pasta.pipeline.placement import Placement
from pasta.pipeline.shards import Shard, ShardedInputs
from pasta.pipeline.stage import Merge

Frames = dict[str, pl.DataFrame]


@dataclass(frozen=True)
class ShardWork(ABC):
    """What of a graph runs on each shard."""

    graph: Graph

    @property
    @abstractmethod
    def combined(self) -> tuple[str, ...]:
        """The nodes of which each shard leaves a state."""

    @property
    @abstractmethod
    def leaves_rows(self) -> bool:
        """Whether a shard leaves rows, beside states."""

    @abstractmethod
    def run(self, shard: Shard, place: int, topic: str | None) -> tuple[Frames, Frames]:
        """Return the rows and the states that the shard with this number leaves, by node.

        With a `topic`, what is read is read before the rest runs, and when is logged under it.
        """

    @abstractmethod
    def results(
        self, rows: Mapping[str, Sequence[pl.DataFrame]], states: Frames
    ) -> dict[str, pl.LazyFrame]:
        """Return the rows of the nodes that ran on shards, from what all shards left.

        Args:
            rows: node -> its rows on each shard, in their order; absent where no shard reaches it.
            states: node -> its combined state; absent where no shard reaches it.
        """

    def tables(self, shard: Shard, topic: str | None) -> dict[str, pl.LazyFrame]:
        """Return the rows of each input; with a `topic`, workers log under it when they read."""
        tables = shard.tables(self.graph)
        if topic is not None:
            tables |= {name: timed_reading(tables[name], topic) for name in shard.pieces}
        return tables

    def merge(self, name: str) -> Merge:
        """Return how the states of a combined node come together.

        Raises:
            EngineError: its stage is not mergeable.
        """
        merge = self.graph.nodes[name].stage.merge
        if merge is None:
            raise EngineError(f"stage '{name}' is not mergeable")
        return merge

    def partial(self, name: str, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Return the state of a combined node from some of its source's rows."""
        return self.merge(name).partial(rows, **self.graph.nodes[name].arguments)

    def combine(self, states: Sequence[Frames]) -> Frames:
        """Return one state for each node that any of `states` has one of."""
        names = list(dict.fromkeys(name for held in states for name in held))
        plans = []
        for name in names:
            parts = pl.concat([held[name].lazy() for held in states if name in held])
            plans.append(self.merge(name).combine(parts, **self.graph.nodes[name].arguments))
        return dict(zip(names, collect(plans), strict=True))

    def final(self, name: str, state: pl.LazyFrame) -> pl.LazyFrame:
        """Return the rows of a combined node from its combined state."""
        return self.merge(name).final(state, **self.graph.nodes[name].arguments)


@dataclass(frozen=True)
class Work(ShardWork):
    """The part of a graph that runs on shards of rows or of whole ranks.

    Attributes:
        placement: where its nodes run.
        given: node or input -> its rows, which every shard reads whole.
    """

    placement: Placement
    given: Frames = field(default_factory=dict, kw_only=True)

    @property
    def combined(self) -> tuple[str, ...]:
        """The nodes of which each shard leaves a state."""
        return self.placement.combined

    @property
    def leaves_rows(self) -> bool:
        """Whether rows of nodes are shipped as they are."""
        return bool(self.placement.shipped)

    def tables(self, shard: Shard, topic: str | None) -> dict[str, pl.LazyFrame]:
        """Return the rows of each input, and those that every shard reads whole."""
        whole = {name: frame.lazy() for name, frame in self.given.items()}
        return super().tables(shard, topic) | whole

    def run(self, shard: Shard, place: int, topic: str | None) -> tuple[Frames, Frames]:
        """Return the rows of the shipped nodes and the states of the combined ones."""
        del place
        targets = self.reached(shard.pieces)
        shipped = [name for name in targets if name in self.placement.shipped]
        combined = [name for name in targets if name in self.placement.combined]
        sources = {name: self.graph.nodes[name].sources[0] for name in combined}
        tables = self.tables(shard, topic)
        plans = self.graph.unsorted_plan(tables, [*shipped, *sources.values()], collect)
        states = [self.partial(name, plans[source]) for name, source in sources.items()]
        frames = collect([*(plans[name] for name in shipped), *states])
        rows = dict(zip(shipped, frames, strict=False))
        return rows, dict(zip(combined, frames[len(shipped) :], strict=True))

    def results(
        self, rows: Mapping[str, Sequence[pl.DataFrame]], states: Frames
    ) -> dict[str, pl.LazyFrame]:
        """Return the rows of the shipped and of the combined nodes, and those that shards read whole."""
        sources = {name: self.graph.nodes[name].sources[0] for name in self.placement.combined}
        reached = [*self.placement.shipped, *sources.values()]
        empty = self.graph.unsorted_plan(self.tables(Shard({}), None), reached, collect)
        tables = {name: frame.lazy() for name, frame in self.given.items()}
        for name in self.placement.shipped:
            found = pl.concat(rows[name]).lazy() if name in rows else empty[name]
            tables[name] = self.gathered(name, found)
        for name, source in sources.items():
            state = states[name].lazy() if name in states else self.partial(name, empty[source])
            tables[name] = self.final(name, state)
        return tables

    def reached(self, names: Iterable[str]) -> list[str]:
        """Return the targets that rows of any of the inputs `names` can reach."""
        inputs = set(names)
        return [
            target
            for target in self.placement.targets
            if inputs.intersection(self.graph.above(target))
        ]

    def gathered(self, name: str, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Return the rows of a shipped node from those of all shards under one another."""
        node = self.graph.nodes[name]
        within = node.stage.within
        if self.placement.places[name] == "rows" or within is None or within.gather is None:
            return rows
        return within.gather(rows, **node.arguments)


def made_before(graph: Graph, inputs: ShardedInputs, placement: Placement) -> Frames:
    """Run what every shard reads whole, in this process.

    Raises:
        EngineError: Polars cannot run it.
    """
    if not placement.given:
        return {}
    try:
        plans = graph.unsorted_plan(inputs.whole().tables(graph), placement.given, collect)
        return dict(zip(plans, collect(list(plans.values())), strict=True))
    except pl.exceptions.PolarsError as error:
        text = " ".join(str(error).split())
        raise EngineError(f"what all shards look rows up in failed: {text}") from error


def packed(work: object) -> bytes:
    """Return work as bytes, which the scheduler need not look into for each task."""
    return pickle.dumps(work)


@lru_cache(maxsize=2)
def unpacked(work: bytes) -> Any:
    """Return work from bytes; a worker does so once, and tells Dask how large frames are."""
    from dask.sizeof import sizeof

    sizeof.register(pl.DataFrame, pl.DataFrame.estimated_size)
    return pickle.loads(work)  # noqa: S301 (from the caller, by way of the scheduler)


def run_shard(
    work_bytes: bytes, shard: Shard, place: int, topic: str | None = None
) -> tuple[Frames, Frames]:
    """Return the rows and the states that one shard leaves."""
    work: ShardWork = unpacked(work_bytes)
    return work.run(shard, place, topic)


def run_for_rows(work_bytes: bytes, shard: Shard, place: int, topic: str | None) -> Frames:
    """Return the rows that one shard leaves, where it leaves no states."""
    return run_shard(work_bytes, shard, place, topic)[0]


def run_for_states(work_bytes: bytes, shard: Shard, place: int, topic: str | None) -> Frames:
    """Return the states that one shard leaves, where it leaves no rows."""
    return run_shard(work_bytes, shard, place, topic)[1]


def combine_states(work_bytes: bytes, *parts: Frames) -> Frames:
    """Return one state for each node that any of `parts` has a state of."""
    work: ShardWork = unpacked(work_bytes)
    return work.combine(parts)


def part(result: Sequence[Frames], place: int) -> Frames:
    """Return one of several: the rows (0) or the states (1) that a shard left, or a cut of a state."""
    return result[place]


def collect(plans: Sequence[pl.LazyFrame]) -> list[pl.DataFrame]:
    """Run `plans` in one pass over what they share."""
    return pl.collect_all(plans, engine="streaming") if plans else []
