"""Stage `derive`: add or replace columns by expressions."""

from __future__ import annotations

import polars as pl

from pasta.pipeline.columns import check_new_names
from pasta.pipeline.expressions import is_row_wise, window_keys
from pasta.pipeline.stage import Within, stage


@stage(
    "derive",
    row_wise=lambda arguments: all(is_row_wise(e) for e in arguments["columns"].values()),
    within=Within(lambda arguments: window_keys(arguments["columns"].values())),
)
def derive(rows: pl.LazyFrame, *, columns: dict[str, pl.Expr]) -> pl.LazyFrame:
    """Add `columns`, each computed from the columns of the input, not from one another.

    An aggregate, as in `time / sum(time)`, runs over all rows.

    YAML: `share: {use: derive, from: by_name, columns: {share: time_ns / sum(time_ns)}}`
    """
    check_new_names(columns, "columns")
    return rows.with_columns(expression.alias(name) for name, expression in columns.items())
