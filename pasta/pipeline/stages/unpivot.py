"""Stage `unpivot`: a row for each of several columns."""

from __future__ import annotations

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import check_columns
from pasta.pipeline.stage import stage


@stage("unpivot")
def unpivot(rows: pl.LazyFrame, *, columns: dict[str, str], label: str, value: str) -> pl.LazyFrame:
    """Give each row once for each of `columns`, with what it has there as `value`.

    The column `label` says which it is: the name in front of the column. Other columns stay as they are, but those
    of the names `label` and `value`, which are replaced.

    Raises:
        ConfigError: `columns` are none, absent, or of different types.

    YAML: `parts: {use: unpivot, from: runs, columns: {run: run_ns, collect: collect_ns}, label: part, value: time_ns}`
    """
    if not columns:
        raise ConfigError("columns", "needs at least one column")
    check_columns(rows, list(columns.values()), "columns")
    schema = rows.collect_schema()
    kinds = {column: schema[column] for column in columns.values()}
    if len(set(kinds.values())) > 1:
        found = ", ".join(f"'{column}' is {kind}" for column, kind in kinds.items())
        raise ConfigError("columns", f"hold values of different types: {found}; cast some")
    return pl.concat(
        rows.with_columns(pl.col(column).alias(value), pl.lit(name).alias(label))
        for name, column in columns.items()
    )
