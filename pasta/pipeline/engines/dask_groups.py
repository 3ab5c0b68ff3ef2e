"""States of shards cut by groups, and cuts run, on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from pasta.pipeline.engines.dask_run import ShardRun
from pasta.pipeline.engines.group_tasks import (
    CUT_BYTES,
    GroupWork,
    Outline,
    cut_states,
    outline_states,
    run_cut,
)
from pasta.pipeline.engines.shard_tasks import Frames, packed, part


class GroupRun(ShardRun):
    """One run of the part of a graph that runs on shards, and on cuts of the states that these leave.

    Into how many cuts depends on the states alone. Where they are small they are combined as ever.

    Args:
        client: the connection to the scheduler.
        groups: what to do with each shard, and with each cut.
        topic: under which workers log when they read.
    """

    def __init__(self, client: Any, groups: GroupWork, topic: str | None = None) -> None:
        super().__init__(client, groups.work, topic)
        light = replace(groups, work=replace(groups.work, given={}))
        self._groups, self._groups_bytes = groups, packed(light)

    def results(self) -> dict[str, pl.LazyFrame]:
        """Return plans that read the rows of the nodes that ran, from what all cuts left."""
        held = self._states.held()
        if self.bytes_of(held) < CUT_BYTES:  # about: Dask only samples what is many
            return super().results()
        asked = [self.task(outline_states, self._groups_bytes, state, priority=2) for state in held]
        outlines: list[Outline] = self.gathered(asked)
        self.cuts = self._groups.cuts(outlines)
        if self.cuts == 1:
            return super().results()
        rows = self._all_rows()
        left = self.gathered(self._submit_cuts(held, [outline.common for outline in outlines]))
        for name in self._groups.grouping.shipped:
            rows[name] = [shipped[name] for shipped, _ in left]
        return self._groups.results(rows, self.work.combine([states for _, states in left]))

    def _submit_cuts(self, held: Sequence[Any], common: Sequence[Frames]) -> list[Any]:
        """Have each state cut, and what belongs together run; return the futures."""
        pieces = [
            self.task(cut_states, self._groups_bytes, state, self.cuts, priority=2)
            for state in held
        ]
        found = []
        for place in range(self.cuts):
            parts = [self.task(part, piece, place, priority=2) for piece in pieces]
            found.append(self.task(run_cut, self._groups_bytes, common, *parts, priority=1))
        return found
