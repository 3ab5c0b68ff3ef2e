"""Stage `select`: keep, order and rename columns."""

from __future__ import annotations

import polars as pl

from pasta.pipeline.columns import check_columns, check_new_names
from pasta.pipeline.stage import stage


@stage("select", row_wise=True)
def select(rows: pl.LazyFrame, *, columns: list[str] | dict[str, str]) -> pl.LazyFrame:
    """Keep `columns` in the order given; a mapping `new: old` renames.

    YAML: `times: {use: select, from: kernels, columns: {kernel: name, time_ns: dur}}`
    """
    renamed = columns if isinstance(columns, dict) else {name: name for name in columns}
    check_columns(rows, renamed.values(), "columns")
    check_new_names(renamed, "columns")
    return rows.select(pl.col(old).alias(new) for new, old in renamed.items())
