"""The row of each row's parent, as recorded or as the times tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from pasta.nesting import parents
from pasta.pipeline.columns import extents, number_groups, process_key, unsigned
from pasta.pipeline.kernels.ordering import rows_with


def _recorded_parents(rows: pl.DataFrame, node: str, parent: str) -> tuple[Any, Any]:
    """Return the row of each row's recorded parent in its process, -1 where there is none.

    Args:
        rows: rows with ids.
        node: the column of ids.
        parent: the column of parents' ids, 0 for none.

    Returns:
        The parents as int64, and for each row whether any parent is recorded in its process and
        all of them are among the rows.
    """
    processes, (groups,) = number_groups(process_key(rows), rows)
    ids, wanted = (unsigned(rows, column).view(np.int64) for column in (node, parent))
    named = wanted != 0
    found = np.where(named, rows_with(groups, ids, groups, wanted), -1)
    count = processes.height
    complete = np.bincount(groups[named], minlength=count) > 0
    complete[groups[named & (found < 0)]] = False
    return found, complete[groups]


def inferred_parents(spans: pl.DataFrame, thread: Sequence[str]) -> Any:
    """Return the row of the innermost span around each span, -1 where there is none."""
    _, (threads,) = number_groups(thread, spans)
    return parents(threads, *extents(spans))


def known_parents(
    rows: pl.DataFrame, node: str, parent: str, thread: Sequence[str] | None = None
) -> Any:
    """Return recorded parents; of a process that lacks some, inferred ones where times tell."""
    found, complete = _recorded_parents(rows, node, parent)
    thread = process_key(rows, within=["tid"]) if thread is None else thread
    if complete.all() or not {*thread, "ts", "dur"} <= set(rows.columns):
        return found
    return np.where(complete, found, inferred_parents(rows, thread))
