"""Stage `live_totals`: live bytes after each allocation and release."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from pasta.pipeline.columns import integers, number_groups, process_key, require
from pasta.pipeline.frames import mask, with_arrays
from pasta.pipeline.kernels.ordering import changes, highest_in_runs, order_by
from pasta.pipeline.stage import WITHIN_PROCESS, stage

_NEEDED = ["rank", "pid", "device", "space", "ts", "event", "bytes", "total_allocated"]


@stage("live_totals", within=WITHIN_PROCESS)
def live_totals(memory: pl.DataFrame) -> pl.DataFrame:
    """Add the bytes that are live after each event, and those that were live before the first.

    They are the allocator's own totals where it recorded them. Elsewhere allocations less releases
    are summed up in the order of time, which needs no addresses; where that falls below zero, what
    was released had been live before the trace, and all totals of the place are raised by it.

    Args:
        memory: rows of the table `memory`; those without a time do not count.

    Returns:
        The rows in their order, with `live_bytes`, and `before_bytes`, which is the same for all
        rows of one process, device and space.

    YAML: `totals: {use: live_totals, from: memory}`
    """
    require(memory, _NEEDED)
    memory = memory.drop_nulls("ts")
    place = process_key(memory, within=["device", "space"])
    _, (places,) = number_groups(place, memory)
    order = order_by(places, integers(memory, "ts"))
    allocates, releases = (
        mask(memory, pl.col("event") == event) for event in ("allocate", "release")
    )
    amounts = (allocates.astype(np.int64) - releases) * integers(memory, "bytes")
    summed = np.empty_like(amounts)
    summed[order], before = _summed(places[order], amounts[order])
    recorded = integers(memory, "total_allocated")
    known = mask(memory, pl.col("total_allocated").is_not_null())
    first = order[changes(places[order])]
    before = np.where(known[first], np.maximum(recorded[first] - amounts[first], 0), before)
    return with_arrays(
        memory, live_bytes=np.where(known, recorded, summed), before_bytes=before[places]
    )


def _summed(places: Any, amounts: Any) -> tuple[Any, Any]:
    """Return running sums within each place, raised so that none is negative, and by how much."""
    if not len(places):
        return amounts, amounts
    first = np.flatnonzero(changes(places))
    running = np.cumsum(amounts)
    running -= (running - amounts)[first][places]
    before = np.maximum(highest_in_runs(-running, first), 0)
    return running + before[places], before
