"""Stage `miss_curve`: what caches of many sizes miss, from reuse distances."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.arguments import Bytes
from pasta.pipeline.columns import frame, integers, number_groups, require
from pasta.pipeline.frames import to_array
from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import changes, group_sums, order_by
from pasta.pipeline.kernels.reuse import NEVER, hits_below
from pasta.pipeline.stage import stage


@stage("miss_curve", order="own")
def miss_curve(
    uses: pl.DataFrame,
    *,
    by: list[str],
    size: Bytes,
    of: list[str] = [],  # noqa: B006 (never mutated)
    distance: str = "distance",
    sampled: float = 1.0,
) -> pl.DataFrame:
    """Compute the share of uses that fully associative LRU caches miss, size by size.

    A cache that holds C things misses first uses and those of distance C or more. Sizes are powers
    of two, from one thing to the first that misses first uses only.

    Args:
        uses: rows with a distance, null for the first use of a thing, as `reuse_distance` gives.
        by: columns that name a group; `[]` for one curve.
        size: bytes of a thing, as of a sector.
        of: columns that name a thing; needed where `sampled` is below 1.
        distance: the column of distances.
        sampled: share of the things that are in the rows.

    Returns:
        Columns `by`; `cache_bytes`, the size of the cache; `uses` and `misses`; `miss_share`; and
        `error`, the standard error of that share by which things were sampled (that of a ratio
        over clusters: Cochran 1977, 2.11), 0 where none was left out. In order of `by` and size.

    Raises:
        ConfigError: `size` is below 1 byte, or `sampled` is no share or comes without `of`.

    YAML: `curve: {use: miss_curve, from: uses, by: name, size: 32}`
    """
    require(uses, [distance, *of])
    if size <= 0:
        raise ConfigError("size", f"must be 1 byte or more, got {size}")
    if not 0 < sampled <= 1:
        raise ConfigError("sampled", f"must be above 0 and at most 1, got {sampled}")
    if sampled < 1 and not of:
        raise ConfigError("of", "needs the columns of a thing where things were sampled")
    keys, (groups,) = number_groups(by, uses)
    distances = integers(uses, distance, NEVER)
    xp = array_namespace(distances)
    longest = int(distances.max()) if len(distances) else NEVER
    count = int(groups.max()) + 1 if len(groups) else 0
    sizes = to_array(1 << np.arange(max(longest, 0).bit_length() + 1), like=distances)
    totals = hits_below(xp.zeros_like(distances), groups, xp.ones(1, dtype=xp.int64), count)
    misses = totals - hits_below(distances, groups, sizes, count)
    owners, places = xp.divmod(xp.arange(count * len(sizes)), len(sizes))
    errors = xp.zeros(misses.shape)
    if sampled < 1:
        _, (things,) = number_groups([*by, *of], uses)
        errors = _errors(_Things.of(groups, things), distances, sizes, misses / totals, sampled)
    columns = {
        "cache_bytes": sizes[places] * size,
        "uses": totals[owners, 0],
        "misses": misses.ravel(),
        "miss_share": (misses / totals).ravel(),
        "error": errors.ravel(),
    }
    return frame(keys, owners, columns)


class _Things(NamedTuple):
    """Uses in order of things: which thing each is of, and the group of each thing."""

    order: Any
    things: Any
    groups: Any

    @classmethod
    def of(cls, groups: Any, things: Any) -> _Things:
        """Return them for uses whose groups and things are given by number; a thing is of one group."""
        order = order_by(things)
        first = order[changes(things[order])]
        return cls(order, things[order], groups[first])


def _errors(held: _Things, distances: Any, sizes: Any, shares: Any, sampled: float) -> Any:
    """Return the standard errors of shares of misses, of which a group's things were sampled."""
    xp = array_namespace(distances)
    count, ordered = len(held.groups), distances[held.order]
    ones = xp.ones(len(ordered), dtype=xp.int64)
    uses = group_sums(held.things, ones, count)
    totals = group_sums(held.groups, uses, len(shares))
    errors = xp.zeros(shares.shape)
    for place, size in enumerate(sizes.tolist()):
        missed = ((ordered < 0) | (ordered >= size)).astype(xp.int64)
        beyond = group_sums(held.things, missed, count) - shares[held.groups, place] * uses
        squares = group_sums(held.groups, beyond * beyond, len(shares))
        errors[:, place] = xp.sqrt((1 - sampled) * xp.maximum(squares, 0)) / totals
    return errors
