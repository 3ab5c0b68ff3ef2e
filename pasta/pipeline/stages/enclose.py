"""The stage `enclose`."""

from __future__ import annotations

import numpy as np
import polars as pl

from pasta.pipeline.columns import integers, number_groups, process_key, require, unsigned
from pasta.pipeline.kernels.enclosure import innermost
from pasta.pipeline.stage import stage


@stage("enclose")
def enclose(
    points: pl.DataFrame, spans: pl.DataFrame, *, by: list[str] | None = None, time: str = "ts"
) -> pl.DataFrame:
    """Add the innermost span that lasts at each row's time, on the same thread.

    Args:
        points: rows with a time, as calls or memory events.
        spans: rows with `span_id`, `ts` and `dur`; one without `dur` lasts to the end.
        by: columns that name a thread; default `rank`, `pid`, `tid` (and `trace` where both have
            it).
        time: the column of times in `points`, ns.

    Returns:
        The rows of `points` in their order, with `span_id` (0: no span lasts then, or the time is
        null). A span that ends at the time does not last any more.
    """
    by = process_key(points, spans, within=["tid"]) if by is None else by
    require(points, [*by, time], "points")
    require(spans, [*by, "span_id", "ts", "dur"], "spans")
    _, (asking, threads) = number_groups(by, points, spans)
    starts = integers(spans, "ts")
    unfinished = spans["dur"].is_null().to_numpy()
    ends = np.where(unfinished, np.iinfo(np.int64).max, starts + integers(spans, "dur"))
    found = innermost(threads, starts, ends, asking, integers(points, time))
    found = np.where(points[time].is_null().to_numpy(), -1, found)
    ids = np.append(unsigned(spans, "span_id"), np.uint64(0))
    return points.with_columns(span_id=ids[found])
