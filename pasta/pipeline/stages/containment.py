"""Stage `containment`: what encloses each span, by time alone, and whether times leave that in doubt."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from pasta.nesting import parents
from pasta.pipeline.columns import extents, number_groups, process_key, require, unsigned
from pasta.pipeline.frames import with_arrays
from pasta.pipeline.stage import PROCESS, Within, stage

_ANY = 1 << 62
"""An overhang so long that whatever is open where a span begins is taken to enclose it."""


@stage("containment", within=Within(lambda _given: PROCESS))
def containment(spans: pl.DataFrame) -> pl.DataFrame:
    """Add the innermost span around each on its thread, and whether one overlaps it in part.

    A span may end up to 1 us after what encloses it, as clocks are read at different moments. Of two
    with one begin the longer encloses the shorter, of two identical ones that of the smaller `span_id`
    the other.

    Args:
        spans: rows with `rank`, `pid`, `tid`, `ts`, `dur` and `span_id`; one without `dur` encloses
            nothing.

    Returns:
        The rows in their order, with `enclosed` (whether any is around it), `within_id` (`span_id` of the
        innermost; 0: none, or one without id) and `overlaps` (the innermost span that is open where
        it begins ends before it does: times do not tell whether it belongs there).

    YAML: `placed: {use: containment, from: spans}`
    """
    thread = process_key(spans, within=["tid"])
    require(spans, [*thread, "ts", "dur", "span_id"])
    _, (threads,) = number_groups(thread, spans)
    ids = unsigned(spans, "span_id")
    order = np.argsort(ids, kind="stable")
    starts, ends = (times[order] for times in extents(spans))
    found = parents(threads[order], starts, ends)
    opened = parents(threads[order], starts, ends, overhang=_ANY)
    around = np.append(ids[order], np.uint64(0))[found]
    return with_arrays(
        spans,
        enclosed=_back(found >= 0, order),
        within_id=_back(around, order),
        overlaps=_back(opened != found, order),
    )


def _back(values: Any, order: Any) -> Any:
    """Return values of rows in `order` for the rows as they stand."""
    placed = np.empty_like(values)
    placed[order] = values
    return placed
