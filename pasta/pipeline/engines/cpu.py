"""The CPU engine: Polars' streaming engine on all cores. The default, always there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import polars as pl

from pasta.allocator import give_back
from pasta.errors import EngineError
from pasta.pipeline.engines.base import Engine
from pasta.pipeline.engines.local_run import run_in_turn
from pasta.pipeline.engines.shard_tasks import Work, made_before
from pasta.pipeline.engines.slice_tasks import SliceWork
from pasta.pipeline.frames import in_even_chunks
from pasta.pipeline.graph import Graph
from pasta.pipeline.placement import array_states, place
from pasta.pipeline.run import Source
from pasta.pipeline.shards import ShardedInputs
from pasta.pipeline.slicing import cut_slices, find_slicing

PART_ROWS = 1 << 21
"""Rows of a part: few enough for any machine, enough to fill its cores."""

MANY_ROWS = 1 << 28
"""Rows of an input, with more of which groups are found part after part too: they need not be few."""

GROUPED_ROWS = 1 << 25
"""Rows of such a part: Polars' streaming engine may set as many groups aside until all rows are read."""


class CpuEngine(Engine):
    """Runs plans on CPU cores; memory is bounded where plans stream or stages run part after part.

    Args:
        part_rows: rows of a shard, or intervals that begin in a slice of time, about; what reads fewer
            rows is not cut.
    """

    name = "cpu"

    def __init__(self, *, part_rows: int = PART_ROWS) -> None:
        super().__init__()
        self._part_rows = part_rows

    def run_parts(
        self,
        graph: Graph,
        sources: Sequence[Source],
        wanted: Sequence[str],
        known: Collection[str],
    ) -> dict[str, pl.LazyFrame]:
        """Run, on a large trace, stages of intervals and mergeable stages part after part.

        Raises:
            EngineError: Polars cannot run them.
        """
        with _failures():
            ran = self._run_slices(graph, sources, wanted, known)
            ran |= self._run_shards(graph, sources, wanted, {*known, *ran})
            return ran | self._run_many(graph, sources, wanted, {*known, *ran})

    def _run_slices(
        self,
        graph: Graph,
        sources: Sequence[Source],
        wanted: Sequence[str],
        known: Collection[str],
    ) -> dict[str, pl.LazyFrame]:
        """Run stages of intervals, and the mergeable stages that follow them, on slices of time."""
        slicing = find_slicing(graph, wanted, known)
        if slicing is None:
            return {}
        slices = cut_slices(graph, sources, slicing, self._part_rows)
        work = SliceWork(graph, slicing)
        return work.results(*run_in_turn(work, slices)) if slices else {}

    def _run_shards(
        self,
        graph: Graph,
        sources: Sequence[Source],
        wanted: Sequence[str],
        known: Collection[str],
    ) -> dict[str, pl.LazyFrame]:
        """Run mergeable array stages on shards; for them all rows would have to be in memory."""
        placement = array_states(graph, wanted, known)
        if not placement.combined:
            return {}
        above = {name for stage in placement.combined for name in graph.above(stage)}
        names = [name for name in graph.inputs if name in above]
        inputs = ShardedInputs(graph, sources, names)
        if inputs.rows(names) <= self._part_rows:
            return {}
        work = Work(graph, placement)
        return work.results(*run_in_turn(work, inputs.by_rows(self._part_rows)))

    def _run_many(
        self,
        graph: Graph,
        sources: Sequence[Source],
        wanted: Sequence[str],
        known: Collection[str],
    ) -> dict[str, pl.LazyFrame]:
        """Run mergeable stages on shards of very many rows, each of them streamed."""
        needed = graph.needed(wanted, known)
        mergeable = [name for name in needed if graph.nodes[name].kind == "mergeable"]
        above = {other for name in mergeable for other in graph.above(name)}
        inputs = ShardedInputs(graph, sources, [name for name in graph.inputs if name in above])
        if not any(inputs.rows([name]) > MANY_ROWS for name in inputs.names):
            return {}
        placed = place(graph, wanted, by_rank=False, few=inputs.few(GROUPED_ROWS))
        ran = {name for name in known if placed.places.get(name) != "before"}
        new = [n for n in placed.combined if n in mergeable and not graph.above(n) & ran]
        if not new:
            return {}
        given = made_before(graph, inputs, placed)
        work = Work(graph, replace(placed, combined=tuple(new)), given=given)
        shards = inputs.by_rows(GROUPED_ROWS, placed.before)
        return work.results(*run_in_turn(work, shards, at_once=1))

    def collect(self, plans: Sequence[pl.LazyFrame]) -> list[pl.DataFrame]:
        """Run `plans` in one pass over what they share.

        Raises:
            EngineError: Polars cannot run them.
        """
        give_back()
        with _failures():
            return list(map(in_even_chunks, pl.collect_all(plans, engine="streaming")))


@contextmanager
def _failures() -> Iterator[None]:
    """Turn what Polars raises into one line."""
    try:
        yield
    except pl.exceptions.PolarsError as error:
        raise EngineError(f"the cpu engine failed: {' '.join(str(error).split())}") from error
