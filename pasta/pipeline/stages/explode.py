"""Stage `explode`: a row for each element of a list."""

from __future__ import annotations

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import check_columns
from pasta.pipeline.stage import stage


@stage("explode", row_wise=True)
def explode(rows: pl.LazyFrame, *, column: str) -> pl.LazyFrame:
    """Repeat each row for each element of the list in `column`, which holds the element instead.

    Rows whose list is null or empty are left out, and so are elements that are null.

    Raises:
        ConfigError: `column` is absent or holds no lists.

    YAML: `members: {use: explode, from: collectives, column: members}`
    """
    check_columns(rows, [column], "column")
    kind = rows.collect_schema()[column]
    if not isinstance(kind, pl.List):
        raise ConfigError("column", f"'{column}' is {kind}; expected a list")
    return rows.explode(column, empty_as_null=True).filter(pl.col(column).is_not_null())
