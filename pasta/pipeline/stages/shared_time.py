"""Stage `shared_time`: for how long others last beside each interval."""

from __future__ import annotations

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import (
    check_added,
    integers,
    intervals_of,
    lasting,
    number_groups,
    require,
)
from pasta.pipeline.frames import with_arrays
from pasta.pipeline.kernels.intervals import lasting_together, measure_within
from pasta.pipeline.stage import Within, stage


@stage("shared_time", within=Within(lambda given: given["by"]))
def shared_time(
    rows: pl.DataFrame,
    others: pl.DataFrame,
    *,
    by: list[str],
    column: str,
    at_least: int = 1,
    start: str = "ts",
    duration: str = "dur",
) -> pl.DataFrame:
    """Add for how much of each interval at least so many of the others last, in ns.

    Where the rows are among the others, `at_least: 2` leaves out each row itself, exactly: while it lasts,
    it is one of them.

    Args:
        rows: rows with a start and a duration; null is 0.
        others: rows with a start and a duration; without either they do not count.
        by: columns that name a group in both; `[]` for one group of all rows.
        column: the new column.
        at_least: how many of the others.
        start: column of starts, ns.
        duration: column of durations, ns.

    Returns:
        The rows in their order, with `column`, from 0 to the duration.

    Raises:
        ConfigError: `at_least` is below 1, or the rows have a column of the new one's name.

    YAML: `{use: shared_time, from: {rows: kernels, others: copies}, by: [rank, device], column: copies_ns}`
    """
    if at_least < 1:
        raise ConfigError("at_least", f"must be 1 or more, got {at_least}")
    require(rows, [start, duration], "rows")
    check_added(rows, [column], "column")
    held = lasting(others, start, duration, "others")
    _, (groups, other_groups) = number_groups(by, rows, held)
    pieces = lasting_together(intervals_of(held, other_groups, start, duration), at_least)
    starts = integers(rows, start)
    ends = starts + integers(rows, duration)
    shared = measure_within(pieces, groups, starts, ends)
    return with_arrays(rows, **{column: shared})
