"""Stage `added_time`: by how much each interval lengthens the time that its group lasts."""

from __future__ import annotations

import polars as pl

from pasta.pipeline.columns import check_added, integers, intervals_of, number_groups, require
from pasta.pipeline.frames import mask, with_arrays
from pasta.pipeline.kernels.intervals import lengthening
from pasta.pipeline.stage import Within, stage


@stage("added_time", within=Within(lambda given: given["by"]))
def added_time(
    rows: pl.DataFrame,
    *,
    by: list[str],
    column: str,
    start: str = "ts",
    duration: str = "dur",
) -> pl.DataFrame:
    """Add what each interval adds to the union of its group, in ns, so that the sum is the union.

    A moment at which several intervals last counts for the one that started first; of those that
    started together, for the first row. The sum over a group is therefore exactly the time
    for which `busy` or `coverage` say that anything of it lasts, however intervals overlap.

    Args:
        rows: rows with a start and a duration; one without either adds nothing.
        by: columns that name a group; `[]` for one group of all rows.
        column: the new column.
        start: column of starts, ns.
        duration: column of durations, ns.

    Returns:
        The rows in their order, with `column`, from 0 to the duration.

    Raises:
        ConfigError: the rows have a column of the new one's name.

    YAML: `{use: added_time, from: kernels, by: [trace, rank, device], column: device_ns}`
    """
    require(rows, [start, duration])
    check_added(rows, [column], "column")
    _, (groups,) = number_groups(by, rows)
    known = mask(rows, pl.col(start).is_not_null() & pl.col(duration).is_not_null())
    intervals = intervals_of(rows, groups, start, duration).where(known)
    added = integers(rows, duration) * 0
    added[known] = lengthening(intervals)
    return with_arrays(rows, **{column: added})
