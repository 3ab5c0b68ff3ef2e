"""Stage `number`: one number for each combination of keys."""

from __future__ import annotations

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import check_added, number_groups
from pasta.pipeline.frames import with_arrays
from pasta.pipeline.stage import stage


@stage("number")
def number(rows: pl.DataFrame, *, by: list[str], column: str) -> pl.DataFrame:
    """Add the number of each row's combination of keys, from 1 on in their order, nulls first.

    Numbers join where keys do not: `join` takes no null and no id of 0 for a match.

    Args:
        rows: any rows.
        by: the columns of the keys.
        column: the new column, int64.

    Returns:
        The rows in their order, with the column.

    Raises:
        ConfigError: `by` is empty, one of it is absent, or the rows have a column of the new one's name.

    YAML: `numbered: {use: number, from: launches, by: [rank, pid, span_id, stack_id], column: place}`
    """
    if not by:
        raise ConfigError("by", "needs at least one column")
    check_added(rows, [column], "column")
    _, (groups,) = number_groups(by, rows)
    return with_arrays(rows, **{column: groups + 1})
