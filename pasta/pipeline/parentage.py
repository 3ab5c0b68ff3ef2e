"""The row of each row's parent, as recorded or as the times tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from pasta.nesting import parents
from pasta.pipeline.columns import extents, number_groups, process_key, unsigned
from pasta.pipeline.kernels.ordering import rows_with


def recorded_parents(rows: pl.DataFrame, node: str, parent: str) -> tuple[Any, bool]:
    """Return the row of each row's recorded parent in its process, -1 where there is none.

    Args:
        rows: rows with ids.
        node: the column of ids.
        parent: the column of parents' ids, 0 for none.

    Returns:
        The parents as int64, and whether any is recorded and all are among the rows.
    """
    _, (groups,) = number_groups(process_key(rows), rows)
    ids, wanted = (unsigned(rows, column).view(np.int64) for column in (node, parent))
    named = wanted != 0
    found = np.where(named, rows_with(groups, ids, groups, wanted), -1)
    return found, bool(named.any() and (found[named] >= 0).all())


def inferred_parents(spans: pl.DataFrame, thread: Sequence[str]) -> Any:
    """Return the row of the innermost span around each span, -1 where there is none."""
    _, (threads,) = number_groups(thread, spans)
    return parents(threads, *extents(spans))


def known_parents(rows: pl.DataFrame, node: str, parent: str) -> Any:
    """Return recorded parents; if some are not among the rows, inferred ones where times tell."""
    found, complete = recorded_parents(rows, node, parent)
    thread = process_key(rows, within=["tid"])
    if complete or not {*thread, "ts", "dur"} <= set(rows.columns):
        return found
    return inferred_parents(rows, thread)
