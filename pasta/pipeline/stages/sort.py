"""Stage `sort`: order the rows."""

from __future__ import annotations

import polars as pl

from pasta.pipeline.columns import check_keys
from pasta.pipeline.ordering import sorted_by
from pasta.pipeline.stage import stage


@stage("sort", order="own")
def sort(rows: pl.LazyFrame, *, by: list[str], descending: bool = False) -> pl.LazyFrame:
    """Order the rows by `by`, nulls last; ties are broken by all remaining columns.

    YAML: `ordered: {use: sort, from: kernels, by: ts}`
    """
    check_keys(rows, by, "by")
    return sorted_by(rows, by, descending=descending)
