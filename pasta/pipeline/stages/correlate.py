"""Stage `correlate`: what a row belongs to, by id, by time or by address."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import polars as pl

from pasta.pipeline.columns import check_added, number_groups, process_key, require, unsigned
from pasta.pipeline.frames import gather_known, with_columns_of
from pasta.pipeline.kernels.ordering import rows_with
from pasta.pipeline.stage import WITHIN_PROCESS, stage
from pasta.pipeline.stages.enclose import enclosing_rows
from pasta.pipeline.stages.locate import locate_rows


@stage("correlate", within=WITHIN_PROCESS, looks_up=True)
def correlate(
    left: pl.DataFrame,
    right: pl.DataFrame,
    *,
    by: Literal["correlation", "containment", "address"],
    columns: list[str] | dict[str, str],
    time: str = "ts",
) -> pl.DataFrame:
    """Find for each row of `left` the row of `right` that it belongs to, and take columns from it.

    Both lie in one process (`rank`, `pid`, and `trace` where both inputs have it).

    - `correlation`: the call that caused the device work, by equal `correlation`; 0 is unknown and
      belongs to nothing. Many kernels may belong to one call; of two calls of one id the first
      counts. (`join` on these columns does so as part of a lazy plan.)
    - `containment`: the innermost span that lasts at the row's time on its thread `tid`. A span
      that ends at that time does not last any more, nor does one without `dur`, as in `enclose`.
    - `address`: the object that is live at the row's time and contains its `address`, in one
      `device` and `space`, as in `locate`; `right` is made by `lifetimes`.

    Args:
        left: kernels, copies, calls, memory events, accesses.
        right: calls, spans or lifetimes.
        by: how they belong together.
        columns: what to take from `right`; a mapping `new: old` renames.
        time: the column of times in `left`, ns.

    Returns:
        The rows of `left` in their order with `columns`, null where it belongs to no row.

    Raises:
        ConfigError: `left` has a column of the name of one that is taken.

    YAML: `called: {use: correlate, from: {left: kernels, right: calls}, by: correlation, columns: {tid: tid, call_ts: ts}}`
    """
    taken = columns if isinstance(columns, dict) else {name: name for name in columns}
    require(right, taken.values(), "right")
    check_added(left, taken, "columns")
    found = _FINDERS[by](left, right, time)
    chosen = right.select(pl.col(old).alias(new) for new, old in taken.items())
    return with_columns_of(left, gather_known(chosen, found))


def _by_correlation(left: pl.DataFrame, right: pl.DataFrame, _time: str) -> Any:
    key = process_key(left, right, within=["correlation"])
    require(left, key, "left")
    require(right, key, "right")
    _, (asking, groups) = number_groups(key[:-1], left, right)
    wanted, ids = (unsigned(rows, "correlation").view(np.int64) for rows in (left, right))
    return np.where(wanted == 0, -1, rows_with(groups, ids, asking, wanted))


def _by_containment(left: pl.DataFrame, right: pl.DataFrame, time: str) -> Any:
    return enclosing_rows(left, right, time=time)


def _by_address(left: pl.DataFrame, right: pl.DataFrame, time: str) -> Any:
    place = process_key(left, right, within=["device", "space"])
    return locate_rows(left, right, by=place, address="address", time=time)


_FINDERS = {
    "correlation": _by_correlation,
    "containment": _by_containment,
    "address": _by_address,
}
