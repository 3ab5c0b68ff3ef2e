"""Stage `circles`: which rows of a tree are recorded as their own ancestors."""

from __future__ import annotations

import numpy as np
import polars as pl

from pasta.pipeline.columns import number_groups, process_key, require, unsigned
from pasta.pipeline.frames import with_arrays
from pasta.pipeline.kernels.ordering import rows_with
from pasta.pipeline.kernels.trees import in_circles
from pasta.pipeline.stage import WITHIN_PROCESS, stage


@stage("circles", within=WITHIN_PROCESS)
def circles(
    rows: pl.DataFrame, *, node: str = "span_id", parent: str = "parent_id"
) -> pl.DataFrame:
    """Tell of each row whether following recorded parents leads back to it, as of two that are each other's.

    What only leads into a circle is not in it. Ids count within a process (`rank`, `pid`, and `trace` where it
    is there).

    Args:
        rows: the nodes, as spans.
        node: the column of ids.
        parent: the column of parents' ids; 0 and ids of no row are none.

    Returns:
        The rows in their order, with `circular`.

    YAML: `marked: {use: circles, from: spans}`
    """
    process = process_key(rows)
    require(rows, [*process, node, parent])
    _, (groups,) = number_groups(process, rows)
    ids, above = (unsigned(rows, column).view(np.int64) for column in (node, parent))
    parents = np.where(above != 0, rows_with(groups, ids, groups, above), -1)
    return with_arrays(rows, circular=in_circles(parents))
