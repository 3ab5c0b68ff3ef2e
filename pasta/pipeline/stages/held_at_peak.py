"""Stage `held_at_peak`: the allocations that were live when most bytes were."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from pasta.pipeline.columns import integers, number_groups, process_key, require, unsigned
from pasta.pipeline.frames import gather, mask
from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import changes, highest_in_runs, order_by
from pasta.pipeline.stage import WITHIN_PROCESS, stage

_NEEDED = ["rank", "pid", "device", "space", "ts", "event", "address", "live_bytes", "before_bytes"]


@stage("held_at_peak", within=WITHIN_PROCESS)
def held_at_peak(totals: pl.DataFrame) -> pl.DataFrame:
    """Return the allocations that are live at the first moment of most live bytes.

    An allocation lives until the next event at its address in the same process, device and space.

    Args:
        totals: rows as the stage `live_totals` gives them; those without an address do not count.

    Returns:
        The rows of these allocations in their order. Of a place where most was live before the
        trace began, there are none.

    YAML: `held: {use: held_at_peak, from: totals}`
    """
    require(totals, _NEEDED)
    _, (places,) = number_groups(process_key(totals, within=["device", "space"]), totals)
    order = order_by(places, integers(totals, "ts"))
    until = _until_peak(places[order], totals.select("live_bytes", "before_bytes"), order)
    rows = order[until]
    seen = rows[mask(totals, pl.col("address").is_not_null())[rows]]
    addresses = unsigned(totals, "address")[seen]
    by_address = order_by(places[seen], addresses)
    last = np.roll(changes(places[seen][by_address], addresses[by_address]), -1)
    held: pl.DataFrame = gather(totals, np.sort(seen[by_address[last]]))
    return held.filter(pl.col("event") == "allocate")


def _until_peak(places: Any, amounts: pl.DataFrame, order: Any) -> Any:
    """Tell which rows, in order of place and time, are not after the peak of their place."""
    live, before = (integers(amounts, name)[order] for name in amounts.columns)
    if not len(live):
        return live < 0
    first = np.flatnonzero(changes(places))
    most = np.maximum(highest_in_runs(live, first), before[first])
    at_peak = np.flatnonzero(live == most[places])
    at_peak = at_peak[changes(places[at_peak])]
    last = np.full_like(first, -1)
    last[places[at_peak]] = at_peak
    return array_namespace(live).arange(len(live)) <= last[places]
