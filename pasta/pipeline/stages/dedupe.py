"""Stage `dedupe`: one row for each key."""

from __future__ import annotations

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import check_keys
from pasta.pipeline.ordering import sorted_by
from pasta.pipeline.stage import Merge, Within, stage


def _dedupe(rows: pl.LazyFrame, *, by: list[str], order: list[str]) -> pl.LazyFrame:
    check_keys(rows, by, "by")
    check_keys(rows, order, "order")
    if not by:
        raise ConfigError("by", "needs at least one column")
    ordered = sorted_by(rows, list(dict.fromkeys([*by, *order])), descending=False)
    return ordered.unique(subset=by, keep="first", maintain_order=True)


def _sorted(rows: pl.LazyFrame, *, by: list[str], **_order: list[str]) -> pl.LazyFrame:
    return rows.sort(by, nulls_last=True, maintain_order=True)


@stage(
    "dedupe",
    merge=Merge(partial=_dedupe, combine=_dedupe, final=_dedupe),
    within=Within(lambda given: given["by"], _sorted),
    order="own",
)
def dedupe(rows: pl.LazyFrame, *, by: list[str], order: list[str] = []) -> pl.LazyFrame:  # noqa: B006 (never mutated)
    """Keep one row for each distinct `by`: the first in `order`, then by all other columns.

    The result is sorted by `by`.

    YAML: `first_launch: {use: dedupe, from: kernels, by: name, order: ts}`
    """
    return _dedupe(rows, by=by, order=order)
