"""Stage `call_paths`: a tree of calls, one row for each distinct path."""

from __future__ import annotations

import numpy as np
import polars as pl

from pasta.pipeline.call_paths import named_paths
from pasta.pipeline.columns import numbers
from pasta.pipeline.kernels.trees import subtree_sums, sums_at, tree
from pasta.pipeline.stage import stage


@stage("call_paths")
def call_paths(
    rows: pl.DataFrame,
    *,
    values: list[str],
    by: list[str] | None = None,
    node: str = "span_id",
    parent: str = "parent_id",
    name: str = "name",
) -> pl.DataFrame:
    """Add up a tree of calls by path: one row for each sequence of names from a root.

    Ids count within a process (`rank`, `pid`, and `trace` where it is there); paths of all
    processes are added up, unless `by` keeps them apart. A row whose parent is 0 or not among the
    rows is a root; of rows that are each other's ancestors the first is.

    Args:
        rows: the nodes, as spans.
        values: columns of numbers to add up; nulls count as 0.
        by: columns that keep paths apart, as `[rank]`.
        node: the column of ids.
        parent: the column of parents' ids.
        name: the column of names that make up the path.

    Returns:
        `by`, `path` (names joined as in `step > forward > linear`), `path_id` (from 1 on, in
        order of rows), `parent_path_id` (0: a root), the name, `depth` (0: a root), `calls` (rows
        of the path) and for each value its sum over those rows and `total_<value>`, the sum over
        the path and all below it. Rows are in order of `path`, so that each comes before what it
        calls.

    YAML: `paths: {use: call_paths, from: spans, values: [self_ns, device_ns]}`
    """
    found = named_paths(rows, node=node, parent=parent, name=name, by=by or [])
    of_rows, above = found.paths.of_rows, found.paths.parents
    nested = tree(above)
    count = len(above)
    sums = {value: sums_at(of_rows, numbers(rows, value), count) for value in values}
    return pl.DataFrame(
        {
            **found.labels.select(by or []).to_dict(),
            "path": found.texts,
            "path_id": found.ids,
            "parent_path_id": np.append(found.ids, np.uint64(0))[above],
            name: found.labels[name],
            "depth": nested.depths.astype(np.int32),
            "calls": sums_at(of_rows, np.ones(rows.height, dtype=np.int64), count),
            **sums,
            **{f"total_{value}": subtree_sums(nested, sums[value]) for value in values},
        }
    ).sort("path_id")
