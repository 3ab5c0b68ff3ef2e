"""Stage `rollup`: totals over each row's subtree."""

from __future__ import annotations

from typing import Any

import polars as pl

from pasta.pipeline.call_paths import named_paths
from pasta.pipeline.columns import numbers
from pasta.pipeline.frames import gather, with_arrays, with_columns_of
from pasta.pipeline.kernels.trees import subtree_sums
from pasta.pipeline.stage import WITHIN_PROCESS, Within, stage


def _renumbered(rows: pl.LazyFrame, **_arguments: Any) -> pl.LazyFrame:
    """Number the paths of all processes in order of their texts."""
    return rows.with_columns(path_id=pl.col("path").rank("dense").cast(pl.UInt64))


@stage("rollup", within=Within(WITHIN_PROCESS.keys, _renumbered, renumbers=True))
def rollup(
    rows: pl.DataFrame,
    *,
    values: list[str],
    node: str = "span_id",
    parent: str = "parent_id",
    name: str = "name",
) -> pl.DataFrame:
    """Add to each row of a tree the sums over it and all its descendants, and its path.

    Ids count within a process (`rank`, `pid`, and `trace` where it is there). A row whose parent
    is 0 is a root; of rows that are each other's ancestors the first is. If some parents
    of a process are not among the rows, its parents are inferred from the times of spans; other
    such rows are roots.

    Args:
        rows: the nodes.
        values: columns of numbers to add up; nulls count as 0.
        node: the column of ids.
        parent: the column of parents' ids.
        name: the column of names that make up the path.

    Returns:
        The rows in their order, with `total_<value>` for each value, `path` (names from the root
        on, as `step > forward > linear`) and `path_id` (from 1 on, equal where the path is).

    YAML: `totals: {use: rollup, from: spans, values: [self_ns, device_ns]}`
    """
    found = named_paths(rows, node=node, parent=parent, name=name)
    totals = {f"total_{value}": subtree_sums(found.rows, numbers(rows, value)) for value in values}
    paths = gather(found.labels.select("path", "path_id"), found.paths.of_rows)
    return with_columns_of(with_arrays(rows, **totals), paths)
