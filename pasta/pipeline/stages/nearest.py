"""Stage `nearest`: the last row before each row, or the first after it, that meets a condition."""

from __future__ import annotations

from typing import Literal

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import check_columns, check_new_names, number_groups, ordinals, require
from pasta.pipeline.frames import beside, gather_known, mask
from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import order_by
from pasta.pipeline.kernels.reuse import NEVER, last_before
from pasta.pipeline.stage import Within, stage


@stage("nearest", within=Within(lambda given: given["by"]))
def nearest(
    rows: pl.DataFrame,
    *,
    by: list[str],
    order: list[str],
    columns: dict[str, str],
    side: Literal["before", "after"] = "before",
    where: pl.Expr | None = None,
) -> pl.DataFrame:
    """Add to each row what the nearest earlier, or later, row of its group holds.

    Of rows that are equal in `order` none is earlier or later than another. Where the nearest row
    is one of several such, the one closest in the order of the rows counts.

    Args:
        rows: any rows.
        by: columns that name a group; `[]` for one group of all rows.
        order: columns of integers that say what is earlier, the first of which weighs most; null is
            before all.
        columns: what to take from the row that is found, as `new: old`, in place of a column `new` that
            is there; null where there is none.
        side: `before` for the last earlier row, `after` for the first later one.
        where: which rows may be found; default all.

    Returns:
        The rows in their order, with the new columns.

    Raises:
        ConfigError: `order` is empty, or a column is absent.

    YAML: `{use: nearest, from: touches, by: object_id, order: ts, where: writes > 0, columns: {writer: launch_id}}`
    """
    require(rows, [*by, *order])
    check_columns(rows, columns.values(), "columns")
    check_new_names(columns, "columns")
    if not order:
        raise ConfigError("order", "needs at least one column")
    _, (groups,) = number_groups(by, rows)
    keys = [ordinals(rows, name) for name in order]
    places = order_by(groups, *keys)
    if side == "after":
        places = places[::-1]
    xp = array_namespace(groups)
    chosen = xp.ones(len(places), dtype=bool) if where is None else mask(rows, where)
    last = last_before(groups[places], [key[places] for key in keys], chosen[places])
    found = xp.full(len(places), NEVER, dtype=xp.int64)
    found[places[last >= 0]] = places[last[last >= 0]]
    taken = rows.select(pl.col(old).alias(new) for new, old in columns.items())
    kept = rows.select(name for name in rows.columns if name not in columns)
    return beside(kept, gather_known(taken, found))
