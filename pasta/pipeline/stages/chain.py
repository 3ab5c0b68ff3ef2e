"""Stage `chain`: the rows that lead, one to the next, to certain rows."""

from __future__ import annotations

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import check_keys, number_groups, require
from pasta.pipeline.frames import gather, mask
from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import order_by
from pasta.pipeline.kernels.trees import led_from
from pasta.pipeline.stage import Within, stage


@stage("chain", within=Within(lambda given: given["by"]))
def chain(rows: pl.DataFrame, *, by: list[str], on: dict[str, str], where: pl.Expr) -> pl.DataFrame:
    """Keep the rows that meet a condition, the row that each of them came from, and so on back.

    Args:
        rows: any rows, each of which came from one other at most.
        by: columns within which rows come from one another; `[]` for all.
        on: how a row names the one that it came from, as `its column: that row's column`. Of several rows
            of equal keys the first is meant; a row that has a null there, or names no row, came from none.
        where: the rows from which chains are followed.

    Returns:
        The rows on the chains in their order, each once.

    Raises:
        ConfigError: a column is absent, or two that `on` compares are of different types.

    YAML: `path: {use: chain, from: moments, by: [rank, pid], on: {before_at: at}, where: is_end}`
    """
    require(rows, [*by, *on, *on.values()])
    check_keys(rows, list(on), "on")
    if not on:
        raise ConfigError("on", "needs at least one column")
    known = ~mask(rows, pl.any_horizontal(pl.col(column).is_null() for column in on))
    own = rows.select(*by, *on.values())
    named = (_without_nulls(rows, column).alias(other) for column, other in on.items())
    asked = rows.select(*by, *named)
    _, (keys, wanted) = number_groups([*by, *on.values()], own, asked)
    xp = array_namespace(keys)
    order = order_by(keys)
    places = xp.searchsorted(keys[order], wanted)
    found = order[xp.minimum(places, len(order) - 1)] if len(order) else places
    parents = xp.where(known & (keys[found] == wanted), found, -1)
    return gather(rows, xp.flatnonzero(led_from(parents, mask(rows, where))))


def _without_nulls(rows: pl.DataFrame, column: str) -> pl.Expr:
    """Return a column with any value for nulls, whose rows came from none: so it is numbered faster."""
    kind = rows.schema[column]
    if kind.is_numeric() or kind == pl.String:
        return pl.col(column).fill_null(0 if kind.is_numeric() else "")
    return pl.col(column)
