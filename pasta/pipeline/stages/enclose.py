"""Stage `enclose`: the span in which something happened."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from pasta.pipeline.columns import (
    extents,
    integers,
    number_groups,
    process_key,
    require,
    unsigned,
)
from pasta.pipeline.frames import gather, mask, with_arrays
from pasta.pipeline.kernels.enclosure import innermost
from pasta.pipeline.kernels.intervals import Intervals
from pasta.pipeline.stage import WITHIN_PROCESS, stage

_FEW = 4


@stage("enclose", within=WITHIN_PROCESS)
def enclose(points: pl.DataFrame, spans: pl.DataFrame, *, time: str = "ts") -> pl.DataFrame:
    """Add the innermost span that lasts at each row's time, on the same thread.

    Args:
        points: rows with `rank`, `pid`, `tid` and a time, as calls or memory events.
        spans: rows with `span_id`, `ts` and `dur`; one without `dur` encloses
            nothing.
        time: the column of times in `points`, ns.

    Returns:
        The rows of `points` in their order, with `span_id` (0: no span lasts then, or the time is
        null). A span that ends at the time does not last any more.

    YAML: `placed: {use: enclose, from: {points: calls, spans: spans}}`
    """
    require(spans, ["span_id"], "spans")
    found = enclosing_rows(points, spans, time=time)
    ids = np.append(unsigned(spans, "span_id"), np.uint64(0))
    return with_arrays(points, span_id=ids[found])


def enclosing_rows(points: pl.DataFrame, spans: pl.DataFrame, *, time: str) -> Any:
    """Return for each point the row of the innermost span around it, -1 where there is none."""
    thread = process_key(points, spans, within=["tid"])
    require(points, [*thread, time], "points")
    require(spans, [*thread, "ts", "dur"], "spans")
    times, unknown = integers(points, time), mask(points, pl.col(time).is_null())
    if points.height * _FEW < spans.height:
        around = _around_any(np.sort(times), *extents(spans))
        found = _innermost(
            points, gather(spans.select(*thread, "ts", "dur"), around), thread, times
        )
        found = np.append(around, -1)[found]
    else:
        found = _innermost(points, spans, thread, times)
    return np.where(unknown, -1, found)


def _innermost(points: pl.DataFrame, spans: pl.DataFrame, thread: list[str], times: Any) -> Any:
    _, (asking, threads) = number_groups(thread, points, spans)
    return innermost(Intervals(threads, *extents(spans)), asking, times)


def _around_any(times: Any, starts: Any, ends: Any) -> Any:
    """Return the rows of spans in which one of `times`, which are sorted, lies.

    Few points lie in few of many spans; the others need not be sorted and searched.
    """
    following = np.append(times, np.iinfo(np.int64).max)[np.searchsorted(times, starts)]
    return np.flatnonzero(following < ends)
