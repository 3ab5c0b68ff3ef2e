"""Stage `prune`: some rows of a tree, connected as they were through those that go."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from pasta.pipeline.columns import number_groups, process_key, require, unsigned
from pasta.pipeline.frames import gather, mask, with_arrays
from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import rows_with
from pasta.pipeline.stage import WITHIN_PROCESS, stage


@stage("prune", within=WITHIN_PROCESS)
def prune(
    rows: pl.DataFrame, *, keep: pl.Expr, node: str = "span_id", parent: str = "parent_id"
) -> pl.DataFrame:
    """Keep some rows of a tree; those below a row that goes belong to the next above that stays.

    Ids count within a process (`rank`, `pid`, and `trace` where it is there).

    Args:
        rows: the nodes, as spans.
        keep: which of them stay; a null condition drops the row.
        node: the column of ids.
        parent: the column of parents' ids, 0 for none.

    Returns:
        The rows that stay, in their order; those whose ancestors all go have the parent 0.

    YAML: `shown: {use: prune, from: spans, keep: level <> 'function'}`
    """
    process = process_key(rows)
    require(rows, [*process, node, parent])
    kept = mask(rows, keep.fill_null(value=False).and_(pl.col(node).is_not_null()))
    if bool(kept.all()):
        return rows.with_columns(pl.col(parent).cast(pl.UInt64).fill_null(0))
    _, (groups,) = number_groups(process, rows)
    ids, above = (unsigned(rows, column).view(np.int64) for column in (node, parent))
    gone, staying = np.flatnonzero(~kept), np.flatnonzero(kept)
    heirs = _next_outside(groups[gone], ids[gone], above[gone])
    lost = _rows(groups[gone], ids[gone], groups[staying], above[staying])
    parents = np.where(lost >= 0, np.append(heirs, 0)[lost], above[staying])
    return with_arrays(gather(rows, staying), **{parent: parents.view(np.uint64)})


def _next_outside(groups: Any, ids: Any, above: Any) -> Any:
    """Return for each row the id of the first ancestor that is none of the rows, 0 for none.

    Each round doubles how far every row has looked up.
    """
    parents = _rows(groups, ids, groups, above)
    highest = np.where(parents >= 0, parents, array_namespace(ids).arange(len(ids)))
    for _round in range(len(ids).bit_length()):
        highest = highest[highest]
    return np.where(parents[highest] >= 0, 0, above[highest])


def _rows(groups: Any, ids: Any, wanted_groups: Any, wanted: Any) -> Any:
    return np.where(wanted != 0, rows_with(groups, ids, wanted_groups, wanted), -1)
