"""The stage `live`."""

from __future__ import annotations

import numpy as np
import polars as pl

from pasta.pipeline.columns import check_added, integers, number_groups, require
from pasta.pipeline.frames import with_arrays
from pasta.pipeline.kernels.intervals import Intervals
from pasta.pipeline.kernels.lifetimes import live_amounts
from pasta.pipeline.stage import Within, stage

_EVER = np.iinfo(np.int64)


@stage("live", within=Within(lambda given: given["by"]))
def live(
    points: pl.DataFrame, lifetimes: pl.DataFrame, *, by: list[str], column: str = "live_bytes"
) -> pl.DataFrame:
    """Add to each point the bytes that are alive at its time.

    Args:
        points: rows with `ts` and `by`.
        lifetimes: rows as the stage `lifetimes` gives them, with `ts`, `end`, `bytes` and `by`; an
            unknown `ts` is before all points, an unknown `end` after them.
        by: columns within which bytes count together; `[]` for all.
        column: name of the new column.

    Returns:
        The points in their order with `column`, bytes; null where the point has no time.

    Raises:
        ConfigError: the points have a column of the new one's name.
    """
    require(points, ["ts"], "points")
    require(lifetimes, ["ts", "end", "bytes"], "lifetimes")
    check_added(points, [column], "column")
    _, (groups, wanted_groups) = number_groups(by, lifetimes, points)
    starts, ends = integers(lifetimes, "ts", _EVER.min), integers(lifetimes, "end", _EVER.max)
    amounts, wanted = integers(lifetimes, "bytes"), integers(points, "ts")
    found = live_amounts(Intervals(groups, starts, ends), amounts, wanted_groups, wanted)
    known = pl.when(pl.col("ts").is_not_null()).then(column)
    return with_arrays(points, **{column: found}).with_columns(known.alias(column))
