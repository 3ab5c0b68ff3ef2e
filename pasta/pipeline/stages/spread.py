"""Stage `spread`: how widely values scatter in each group, from how often each occurs."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import check_new_names, frame, integers, number_groups, require
from pasta.pipeline.kernels.counting import Counts, deviations, fourths, merged
from pasta.pipeline.kernels.counting import tick as tick_of
from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.stage import Within, stage


def _keys(given: Mapping[str, Any]) -> list[str]:
    """Return what rows may differ in without affecting each other: nothing where all of them tell the tick."""
    return [] if given["tick"] is None else list(given["by"])


def _in_order(groups: pl.LazyFrame, *, by: list[str], **_given: Any) -> pl.LazyFrame:
    return groups.sort(by, maintain_order=True) if by else groups


@stage("spread", within=Within(_keys, _in_order), order="own")
def spread(
    counts: pl.DataFrame,
    *,
    by: list[str],
    value: str,
    count: str = "count",
    scatters: float = 7.5,
    least: float = 0.1,
    tick: str | None = None,
) -> pl.DataFrame:
    """Describe the values of each group, robustly and by moments, and those far above the median.

    Args:
        counts: rows with a value and how often it occurs, as `value_counts` gives.
        by: columns that name a group; `[]` for one group of all rows.
        value: the column of integers.
        count: the column of counts, above 0.
        scatters: how many median absolute deviations above the median the fence lies at least; 7.5
            are 5 standard deviations of a normal distribution (1 is 1.4826 deviations: Hampel 1974).
        least: share of the median that the fence lies above it at least; in any case it is two ticks of
            the clock above.
        tick: column with the tick of the clock, the same in all rows; by default the greatest common divisor
            of all values.

    Returns:
        Columns `by`; `size`, how many values; `total`, their sum; `mean`; `standard_deviation` (of the
        whole group, not of a sample); `mean_deviation`, the mean of the distances from the mean; `median`,
        `quartile_range` and `median_deviation`, the median of the distances from the median, each between two
        values linear and rounded half up; `largest`; `fence`, the largest value that is not far above the
        median; `beyond`, how many are above it; and `excess`, what these are above the median, in all.
        In order of `by`.

    Raises:
        ConfigError: `scatters` or `least` is negative.

    YAML: `kernels: {use: spread, from: durations, by: [name], value: dur}`
    """
    for name, given in (("scatters", scatters), ("least", least)):
        if not given >= 0:
            raise ConfigError(name, f"must be 0 or more, got {given}")
    require(counts, [value, count] if tick is None else [value, count, tick])
    check_new_names(by, "by")
    keys, (groups,) = number_groups(by, counts)
    held = merged(groups, integers(counts, value), integers(counts, count))
    centres = fourths(held, 2)
    scatter = fourths(deviations(held, centres), 2)
    ticks = held.values if tick is None else integers(counts, tick)[:1]
    columns = {
        **_moments(held),
        "median": centres,
        "quartile_range": fourths(held, 3) - fourths(held, 1),
        "median_deviation": scatter,
        **_above(held, centres, [scatter * scatters, abs(centres) * least, 2 * tick_of(ticks)]),
    }
    return frame(keys, held.groups[held.first], columns)


def _moments(held: Counts) -> dict[str, Any]:
    """Return sizes and sums, exact, and means and distances from them.

    What lies above a mean and what lies below it are as far from it, so that exact sums of the upper
    part give the mean distance.
    """
    xp = array_namespace(held.values)
    sizes = held.sizes
    totals = held.sums(held.values * held.counts)
    means = totals / sizes
    distances = held.values - held.spread(means)
    above = (distances > 0).astype(xp.int64) * held.counts
    upper = held.sums(above * held.values) - means * held.sums(above)
    squares = held.counts * distances**2
    variances = xp.bincount(held.groups, weights=squares, minlength=len(sizes)) / sizes
    return {
        "size": sizes,
        "total": totals,
        "mean": means,
        "standard_deviation": xp.sqrt(variances),
        "mean_deviation": 2 * upper / sizes,
    }


def _above(held: Counts, centres: Any, margins: Sequence[Any]) -> dict[str, Any]:
    """Return the fences, and how many values are above them, by how much above the centres."""
    xp = array_namespace(held.values)
    margin = functools.reduce(xp.maximum, margins)
    fences = centres + xp.floor(margin).astype(xp.int64)
    beyond = (held.values > held.spread(fences)).astype(xp.int64) * held.counts
    return {
        "largest": held.values[xp.append(held.first[1:], len(held.values)) - 1]
        if len(held.values)
        else held.values,
        "fence": fences,
        "beyond": held.sums(beyond),
        "excess": held.sums(beyond * (held.values - held.spread(centres))),
    }
