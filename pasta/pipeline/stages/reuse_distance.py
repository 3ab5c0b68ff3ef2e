"""Stage `reuse_distance`: how many distinct things are used between two uses of one."""

from __future__ import annotations

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import (
    check_added,
    check_columns,
    check_new_names,
    number_groups,
    ordinals,
    require,
)
from pasta.pipeline.frames import beside, gather_known, with_arrays
from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import order_by
from pasta.pipeline.kernels.reuse import NEVER, previous_uses, reuse_distances
from pasta.pipeline.stage import Within, stage


@stage("reuse_distance", within=Within(lambda given: given["by"]))
def reuse_distance(
    uses: pl.DataFrame,
    *,
    by: list[str],
    of: list[str],
    order: list[str],
    columns: dict[str, str] = {},  # noqa: B006 (never mutated)
    column: str = "distance",
    sampled: float = 1.0,
) -> pl.DataFrame:
    """Add to each use of a thing how many distinct other things were used since it was last used.

    A cache that holds C things, each of one size, in any place, and gives up the one that was used
    longest ago, holds those of distance below C (Mattson et al. 1970). Exact, in a number of passes
    that is the logarithm of the number of uses; it takes some 60 bytes for each.

    Args:
        uses: rows, each a use of a thing, as an access of a sector.
        by: columns that name what is apart, as a process and its device; `[]` for nothing.
        of: columns that name a thing.
        order: columns of integers in order of which things are used, the first of which weighs
            most; equal uses follow each other in the order of the rows.
        columns: what to take from the previous use of the same thing, as `new: old`, in place of a
            column `new` that is there; null where there is none.
        column: name of the new column.
        sampled: share of the things that are in the rows, as `sample` keeps them; distances are
            divided by it and rounded down (SHARDS: Waldspurger et al. 2015).

    Returns:
        The uses in their order, with `column`, null at the first use of a thing, and `columns`.

    Raises:
        ConfigError: `of` is empty, a column is absent, `sampled` is no share, or the uses have a
            column of the new one's name.

    YAML: `{use: reuse_distance, from: accesses, by: [rank, pid], of: sector, order: [launch_id, request, lane]}`
    """
    require(uses, [*by, *of, *order])
    check_columns(uses, columns.values(), "columns")
    check_new_names(columns, "columns")
    check_added(uses, [column], "column")
    if not of:
        raise ConfigError("of", "needs at least one column")
    if not 0 < sampled <= 1:
        raise ConfigError("sampled", f"must be above 0 and at most 1, got {sampled}")
    _, (groups,) = number_groups(by, uses)
    _, (things,) = number_groups([*by, *of], uses)
    places = order_by(groups, *(ordinals(uses, name) for name in order))
    xp = array_namespace(groups)
    previous = previous_uses(things[places])
    distances = xp.full(len(places), NEVER, dtype=xp.int64)
    distances[places] = reuse_distances(previous)
    if sampled < 1:
        distances = xp.where(distances >= 0, (distances / sampled).astype(xp.int64), NEVER)
    found = xp.full(len(places), NEVER, dtype=xp.int64)
    found[places[previous >= 0]] = places[previous[previous >= 0]]
    taken = uses.select(pl.col(old).alias(new) for new, old in columns.items())
    kept = uses.select(name for name in uses.columns if name not in columns)
    rows = with_arrays(kept, **{column: distances})
    rows = rows.with_columns(pl.when(pl.col(column) >= 0).then(column).alias(column))
    return beside(rows, gather_known(taken, found)) if columns else rows
