"""The stage `nest`."""

from __future__ import annotations

import numpy as np
import polars as pl

from pasta.nesting import parents
from pasta.pipeline.columns import (
    integers,
    number_groups,
    parent_rows,
    process_key,
    require,
    unsigned,
)
from pasta.pipeline.kernels.enclosure import self_times
from pasta.pipeline.kernels.trees import tree
from pasta.pipeline.stage import stage


@stage("nest")
def nest(spans: pl.DataFrame, *, by: list[str] | None = None, infer: bool = False) -> pl.DataFrame:
    """Add each span's parent, its depth and the time that it spends in none of its children.

    Args:
        spans: rows with `span_id`, `ts` and `dur`; one without `dur` lasts to the end.
        by: columns that name a thread; default `rank`, `pid`, `tid` (and `trace` where there).
        infer: find parents from the times even where `parent_id` is recorded, as is needed once
            some spans were filtered out.

    Returns:
        The rows in their order, with `parent_id` (0: a root, or its parent is not among the
        rows), `depth` (0: a root) and `self_ns` (`dur` less the union of the direct children
        within it; null where `dur` is). Of spans that are recorded as each other's ancestors the
        first counts as a root.
    """
    by = process_key(spans, within=["tid"]) if by is None else by
    require(spans, [*by, "rank", "pid", "span_id", "ts", "dur"])
    starts = integers(spans, "ts")
    unfinished = spans["dur"].is_null().to_numpy()
    ends = np.where(unfinished, np.iinfo(np.int64).max, starts + integers(spans, "dur"))
    if infer or "parent_id" not in spans.columns or not (spans["parent_id"] > 0).any():
        _, (threads,) = number_groups(by, spans)
        above = parents(threads, starts, ends)
    else:
        above = parent_rows(spans, "span_id", "parent_id")
    nested = tree(above)
    ids = np.append(unsigned(spans, "span_id"), np.uint64(0))
    return spans.with_columns(
        parent_id=ids[nested.parents],
        depth=nested.depths.astype(np.int32),
        self_ns=pl.when(pl.Series(~unfinished)).then(self_times(nested.parents, starts, ends)),
    )
