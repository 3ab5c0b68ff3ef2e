"""What a worker does with states that are cut by groups, and with what is cut off from each of them.

These functions run in processes of a cluster, on what they are given and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from pasta.pipeline.engines.shard_tasks import Frames, Work, collect, unpacked
from pasta.pipeline.grouping import Grouping

CUT_BYTES = 32 << 20
"""Bytes of states in a cut, about: a task's overhead does not count, and workers have several each."""

MOST_CUTS = 64


@dataclass(frozen=True)
class Outline:
    """What is to be known of a state before it is cut.

    Attributes:
        sizes: bytes of it, for each node of which there is one.
        common: what all cuts have to have of it.
    """

    sizes: Mapping[str, int]
    common: Frames


@dataclass(frozen=True)
class GroupWork:
    """The part of a graph that runs on cuts of the states that shards leave."""

    work: Work
    grouping: Grouping

    def outline(self, states: Frames) -> Outline:
        """Return how large a state is, and what all cuts have to have of it."""
        plans = {}
        for name in self.grouping.cut:
            common = self.work.merge(name).common
            if common is not None and name in states:
                plans[name] = common(states[name].lazy(), **self.work.graph.nodes[name].arguments)
        common_rows = dict(zip(plans, collect(list(plans.values())), strict=True))
        return Outline({n: int(rows.estimated_size()) for n, rows in states.items()}, common_rows)

    def cuts(self, outlines: Sequence[Outline]) -> int:
        """Return into how many parts states are cut; 1 where they are small, or a node has none."""
        if not {name for outline in outlines for name in outline.sizes}.issuperset(
            self.grouping.cut
        ):
            return 1
        size = sum(sum(outline.sizes.values()) for outline in outlines)
        return min(max(size // CUT_BYTES, 1), MOST_CUTS)

    def cut(self, states: Frames, count: int) -> list[Frames]:
        """Cut a state into `count`; those of nodes that are not cut are in the first whole."""
        cuts: list[Frames] = [{} for _ in range(count)]
        for name, rows in states.items():
            if name in self.grouping.cut:
                places = rows.select(self.grouping.keys).hash_rows() % count
                for place, held in enumerate(cuts):
                    held[name] = rows.filter(places == place)
            else:
                cuts[0][name] = rows
        return cuts

    def run(self, common: Sequence[Frames], parts: Sequence[Frames]) -> tuple[Frames, Frames]:
        """Return the rows and the states that one cut leaves.

        Args:
            common: what all cuts have to have of each state.
            parts: what was cut off from each state.
        """
        graph, grouping = self.work.graph, self.grouping
        states = self.work.combine([*parts, *common])
        tables = {name: self.work.final(name, states.pop(name).lazy()) for name in grouping.cut}
        sources = [graph.nodes[name].sources[0] for name in grouping.combined]
        reached = [*grouping.shipped, *sources]
        held = graph.read_again(reached).intersection(graph.needed(reached, tables))
        plans = graph.unsorted_plan(tables, dict.fromkeys(reached), collect, held)
        pairs = zip(grouping.combined, sources, strict=True)
        left = [self.work.partial(name, plans[source]) for name, source in pairs]
        frames = collect([*(plans[name] for name in grouping.shipped), *left])
        rows = dict(zip(grouping.shipped, frames, strict=False))
        return rows, states | dict(zip(grouping.combined, frames[len(rows) :], strict=True))

    def results(
        self, rows: Mapping[str, Sequence[pl.DataFrame]], states: Frames
    ) -> dict[str, pl.LazyFrame]:
        """Return the rows of all nodes that ran on shards or on cuts, from what they left."""
        placement, grouping = self.work.placement, self.grouping
        uncut = tuple(name for name in placement.combined if name not in grouping.cut)
        work = replace(self.work, placement=replace(placement, combined=uncut))
        tables = work.results(rows, states)
        for name in grouping.shipped:
            tables[name] = self.work.gathered(name, pl.concat(rows[name]).lazy())
        for name in grouping.combined:
            tables[name] = self.work.final(name, states[name].lazy())
        return tables


def outline_states(group_bytes: bytes, states: Frames) -> Outline:
    """Return what is to be known of a state before it is cut."""
    groups: GroupWork = unpacked(group_bytes)
    return groups.outline(states)


def cut_states(group_bytes: bytes, states: Frames, count: int) -> list[Frames]:
    """Cut a state into `count`."""
    groups: GroupWork = unpacked(group_bytes)
    return groups.cut(states, count)


def run_cut(group_bytes: bytes, common: Sequence[Frames], *parts: Frames) -> tuple[Frames, Frames]:
    """Return the rows and the states that one cut of all states leaves."""
    groups: GroupWork = unpacked(group_bytes)
    return groups.run(common, parts)
