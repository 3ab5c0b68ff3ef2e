"""Stage `nest`: parents, depth and self time of spans."""

from __future__ import annotations

import numpy as np
import polars as pl

from pasta.pipeline.columns import extents, process_key, require, unsigned
from pasta.pipeline.frames import with_arrays
from pasta.pipeline.kernels.enclosure import self_times
from pasta.pipeline.kernels.trees import tree
from pasta.pipeline.parentage import inferred_parents, known_parents
from pasta.pipeline.stage import PROCESS, Within, stage


@stage("nest", within=Within(lambda given: PROCESS if given["by"] is None else given["by"]))
def nest(spans: pl.DataFrame, *, by: list[str] | None = None, infer: bool = False) -> pl.DataFrame:
    """Add each span's parent, its depth and the time that it spends in none of its children.

    Args:
        spans: rows with `span_id`, `ts` and `dur`; one without `dur` encloses others only where
            recorded parents say so.
        by: columns that name a thread; default `rank`, `pid`, `tid` (and `trace` where there).
        infer: find parents from the times even where `parent_id` is recorded.

    Returns:
        The rows in their order, with `parent_id` (0: a root), `depth` (0: a root) and `self_ns`
        (`dur` less the union of the direct children within it; null where `dur` is). Recorded
        parents of a process are trusted if all are among the rows; else, as once some spans were
        filtered out, its parents are inferred. Of spans recorded as each other's ancestors the first is a root.

    YAML: `nested: {use: nest, from: spans}`
    """
    by = process_key(spans, within=["tid"]) if by is None else by
    require(spans, [*by, "rank", "pid", "span_id", "ts", "dur"])
    if infer or "parent_id" not in spans.columns:
        nested = tree(inferred_parents(spans, by))
    else:
        nested = tree(known_parents(spans, "span_id", "parent_id", by))
    starts, ends = extents(spans)
    ids = np.append(unsigned(spans, "span_id"), np.uint64(0))
    rows = with_arrays(
        spans,
        parent_id=ids[nested.parents],
        depth=nested.depths.astype(np.int32),
        self_ns=self_times(nested.parents, starts, ends),
    )
    return rows.with_columns(self_ns=pl.when(pl.col("dur").is_not_null()).then("self_ns"))
