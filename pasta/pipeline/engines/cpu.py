"""The CPU engine: Polars' streaming engine on all cores. The default, always there."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pasta.errors import EngineError
from pasta.pipeline.config import ToolConfig
from pasta.pipeline.engines.base import Engine
from pasta.pipeline.engines.shard_tasks import Frames
from pasta.pipeline.engines.slice_tasks import SliceWork
from pasta.pipeline.graph import Graph
from pasta.pipeline.run import Source, input_tables
from pasta.pipeline.slicing import cut_slices, find_slicing

SLICE_ROWS = 1 << 21
"""Intervals that begin in a slice of time: few enough for any machine, enough to fill its cores."""

_STATES = 8
"""States that are held before they are combined."""


class CpuEngine(Engine):
    """Runs plans on CPU cores; memory is bounded where the plan allows streaming or slices of time.

    Args:
        slice_rows: intervals that begin in a slice of time, about; a graph that reads fewer is not cut.
    """

    name = "cpu"

    def __init__(self, *, slice_rows: int = SLICE_ROWS) -> None:
        super().__init__()
        self._slice_rows = slice_rows

    def run(
        self,
        config: ToolConfig,
        graph: Graph,
        sources: Sequence[Source],
        wanted: Sequence[str],
    ) -> dict[str, pl.DataFrame] | None:
        """Run the stages of intervals of a large trace slice after slice, and then the rest."""
        slicing = find_slicing(graph, wanted)
        if slicing is None:
            return None
        tables = input_tables(config, graph, sources)
        slices = cut_slices(graph, sources, slicing, self._slice_rows)
        if not slices:
            return None
        work = SliceWork(graph, slicing)
        rows: dict[str, list[pl.DataFrame]] = {name: [] for name in slicing.timed}
        states: list[Frames] = []
        for place, part in enumerate(slices):
            pieces, state = work.run(part, place, None)
            for name, found in pieces.items():
                rows[name].append(found)
            states.append(state)
            if len(states) == _STATES:
                states = [work.combine(states)]
        tables |= work.results(rows, work.combine(states))
        plans = graph.plan(tables, wanted, self.collect)
        return dict(zip(plans, self.collect(list(plans.values())), strict=True))

    def collect(self, plans: Sequence[pl.LazyFrame]) -> list[pl.DataFrame]:
        """Run `plans` in one pass over what they share."""
        try:
            return pl.collect_all(plans, engine="streaming")
        except pl.exceptions.PolarsError as error:
            raise EngineError(f"the cpu engine failed: {' '.join(str(error).split())}") from error
