"""Stage `top`: the rows with the largest or smallest values."""

from __future__ import annotations

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import check_keys
from pasta.pipeline.ordering import sorted_by
from pasta.pipeline.stage import Merge, stage


def _top(rows: pl.LazyFrame, *, by: list[str], n: int, smallest: bool = False) -> pl.LazyFrame:
    check_keys(rows, by, "by")
    if n < 0:
        raise ConfigError("n", f"must be 0 or more, got {n}")
    return sorted_by(rows, by, descending=not smallest).head(n)


@stage("top", merge=Merge(partial=_top, combine=_top, final=_top), order="own")
def top(rows: pl.LazyFrame, *, by: list[str], n: int, smallest: bool = False) -> pl.LazyFrame:
    """Return the `n` rows with the largest `by`, largest first; nulls come last.

    Ties are broken by all remaining columns, ascending.

    Raises:
        ConfigError: a column of `by` is absent or holds lists, or `n` is negative.

    YAML: `top: {use: top, from: by_name, by: calls, n: 20}`
    """
    return _top(rows, by=by, n=n, smallest=smallest)
