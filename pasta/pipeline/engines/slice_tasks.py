"""What is done with a slice of time, and with what slices leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from pasta.pipeline.engines.shard_tasks import Frames, ShardWork, collect
from pasta.pipeline.shards import Shard
from pasta.pipeline.slicing import Slicing
from pasta.pipeline.time_slices import SLICE, marked, rejoined

_IS_EDGE = pl.col(SLICE).is_not_null()


@dataclass(frozen=True)
class SliceWork(ShardWork):
    """The part of a graph that runs on slices of time.

    Of its stages of intervals a slice leaves the edges, and all rows only where they are needed. The
    states of what follows hold the rows that are final; the rejoined edges are added in the end.
    """

    slicing: Slicing

    @property
    def combined(self) -> tuple[str, ...]:
        """The nodes of which each slice leaves a state."""
        return tuple(self.slicing.combined)

    @property
    def leaves_rows(self) -> bool:
        """Whether rows are left: the edges always are."""
        return True

    def run(self, shard: Shard, place: int, topic: str | None) -> tuple[Frames, Frames]:
        """Return the rows of the stages of intervals and the states of what follows."""
        tables = self.tables(shard, topic)
        rows: Frames = {}
        states: Frames = {}
        for name in self.slicing.timed:
            pieces = marked(self._pieces(name, shard, tables), self.graph.nodes[name], place)
            rows[name] = pieces if name in self.slicing.whole else pieces.filter(_IS_EDGE)
            states |= self._states(name, pieces.filter(~_IS_EDGE).drop(SLICE))
        return rows, states

    def results(
        self, rows: Mapping[str, Sequence[pl.DataFrame]], states: Frames
    ) -> dict[str, pl.LazyFrame]:
        """Return the rows of the stages of intervals that are needed, and of what follows them."""
        found: dict[str, pl.LazyFrame] = {}
        for name, parts in rows.items():
            node = self.graph.nodes[name]
            pieces = pl.concat(parts)
            edges = rejoined(pieces.filter(_IS_EDGE), node)
            if name in self.slicing.whole:
                every = pl.concat([pieces.filter(~_IS_EDGE).drop(SLICE), edges])
                found[name] = every.lazy().sort(*node.arguments["by"], node.arguments["start"])
            both = self.combine([states, self._states(name, edges)])
            found |= {
                follower: self.final(follower, both[follower].lazy())
                for follower, origin in self.slicing.combined.items()
                if origin == name
            }
        return found

    def _pieces(self, name: str, shard: Shard, tables: Mapping[str, pl.LazyFrame]) -> pl.DataFrame:
        """Return the intervals that a stage gives of one slice."""
        node = self.graph.nodes[name]
        feeding = self.graph.unsorted_plan(tables, dict.fromkeys(node.sources), collect)
        if shard.times is not None:
            start, duration = node.arguments["start"], node.arguments["duration"]
            feeding = {
                source: shard.times.clipped(rows, start, duration)
                for source, rows in feeding.items()
            }
        return collect([self.graph.unsorted_plan(feeding, [name], collect)[name]])[0]

    def _states(self, name: str, pieces: pl.DataFrame) -> Frames:
        """Return the states that rows of a stage of intervals leave of what follows it."""
        followers = [node for node, origin in self.slicing.combined.items() if origin == name]
        sources = [self.graph.nodes[follower].sources[0] for follower in followers]
        plans = self.graph.unsorted_plan({name: pieces.lazy()}, sources, collect)
        states = [
            self.partial(follower, plans[source])
            for follower, source in zip(followers, sources, strict=True)
        ]
        return dict(zip(followers, collect(states), strict=True))
