"""Stage `filter`: keep the rows for which a condition holds."""

from __future__ import annotations

import polars as pl

from pasta.pipeline.expressions import is_row_wise, window_keys
from pasta.pipeline.stage import Within, stage


@stage(
    "filter",
    row_wise=lambda arguments: is_row_wise(arguments["where"]),
    within=Within(lambda arguments: window_keys([arguments["where"]])),
)
def filter(rows: pl.LazyFrame, *, where: pl.Expr) -> pl.LazyFrame:
    """Keep the rows for which `where` is true; a null condition drops the row.

    YAML: `long: {use: filter, from: kernels, where: dur > 1000000}`
    """
    return rows.filter(where)
