"""Stage `rank_test`: whether values of two samples differ by more than chance, group by group."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import frame, integers, number_groups, require
from pasta.pipeline.frames import mask, on_host, to_array
from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.rank_sums import adjusted, likelihood, pairs_in_order
from pasta.pipeline.stage import stage


@stage("rank_test", order="own")
def rank_test(
    values: pl.DataFrame,
    samples: pl.DataFrame,
    *,
    by: list[str],
    value: str,
    second: str,
) -> pl.DataFrame:
    """Test for each group whether values of a second sample differ from those of a first.

    The rank-sum test of Wilcoxon, Mann and Whitney, two-sided: it takes no shape of the values'
    distribution for granted, only that under chance alone each order of them is as likely as any
    other: that they are independent, and all of one distribution. Exact up to 4096 pairs of values;
    of equal values that order counts which speaks least for a difference.

    Args:
        values: a row for each group and member of a sample; a member without a row has the value 0.
        samples: a row for each member of either sample, as a step.
        by: columns that name a group; `[]` for one.
        value: the column of integers, as times; null counts as 0.
        second: the bool column, in both inputs, that tells whether the member is of the second sample.

    Returns:
        Columns `by`; `p`, the probability of values as far apart by chance; `p_adjusted`, the same for
        all groups as one family (Holm 1979): where all is chance, the probability that any of them is
        at most alpha is at most alpha; `p_least`, the smallest `p_adjusted` that samples of these sizes
        can give; 1 where a sample is empty; `first_size` and `second_size`, those sizes; and `larger`, in
        how many more pairs of a value of each sample the second's is the larger than is the smaller.
        In order of `by`.

    Raises:
        ConfigError: `value` holds no integers, or a group has more values than a sample has members.

    YAML: `{use: rank_test, from: {values: times, samples: steps}, by: [path], value: dur, second: after}`
    """
    require(values, [second], "values")
    require(samples, [second], "samples")
    keys, (groups,) = number_groups(by, values)
    sizes = _sizes(samples, second)
    sides = mask(values, pl.col(second))
    counts = _pairs(groups, integers(values, value), sides, sizes).T.tolist()
    chances = [likelihood(above, below, *sizes) for above, below in counts]
    least = min(1.0, likelihood(sizes[0] * sizes[1], 0, *sizes) * len(chances))
    columns = {
        "p": np.array(chances, dtype=np.float64),
        "p_adjusted": adjusted(np.array(chances, dtype=np.float64)),
        "p_least": np.full(len(chances), least),
        "first_size": np.full(len(chances), sizes[0]),
        "second_size": np.full(len(chances), sizes[1]),
        "larger": np.array([above - below for above, below in counts], dtype=np.int64),
    }
    arrays = {name: to_array(column, like=groups) for name, column in columns.items()}
    return frame(keys, to_array(np.arange(len(chances)), like=groups), arrays)


def _sizes(samples: pl.DataFrame, second: str) -> tuple[int, int]:
    """Return how many members both samples have."""
    is_second = pl.col(second).fill_null(value=False).cast(pl.Int64)
    counts = on_host(samples.select(pl.len(), is_second.sum().alias("# second")))
    later = int(counts["# second"].sum())
    return int(counts["len"].sum()) - later, later


def _pairs(groups: Any, amounts: Any, sides: Any, sizes: tuple[int, int]) -> Any:
    """Count pairs in either order, with a 0 for each member of a sample that a group lacks."""
    xp = array_namespace(groups)
    count = int(groups.max()) + 1 if len(groups) else 0
    held = [xp.bincount(groups[side], minlength=count) for side in (~sides, sides)]
    absent = [size - members for size, members in zip(sizes, held, strict=True)]
    if any(bool((missing < 0).any()) for missing in absent):
        raise ConfigError("value", "a group has more values than its sample has members")
    every = xp.arange(count)
    return pairs_in_order(
        xp.concatenate([groups, every, every]),
        xp.concatenate([amounts, xp.zeros(2 * count, dtype=amounts.dtype)]),
        xp.concatenate([sides, every < 0, every >= 0]),
        xp.concatenate([xp.ones(len(groups), dtype=xp.int64), *absent]),
        count,
    )
