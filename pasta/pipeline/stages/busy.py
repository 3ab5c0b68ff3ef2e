"""Stage `busy`: when at least one interval lasts."""

from __future__ import annotations

import polars as pl

from pasta.pipeline.columns import frame, intervals_of, lasting, number_groups, sorted_pieces
from pasta.pipeline.kernels.intervals import complement, union
from pasta.pipeline.stage import Sliced, Within, stage


@stage(
    "busy",
    needs=lambda given: [*given["by"], given["start"], given["duration"]],
    within=Within(lambda given: given["by"], sorted_pieces),
    sliced=Sliced(applies=lambda given: not given["gaps"]),
    order="own",
)
def busy(
    intervals: pl.DataFrame,
    *,
    by: list[str],
    start: str = "ts",
    duration: str = "dur",
    gaps: bool = False,
) -> pl.DataFrame:
    """Merge the intervals of each group into those during which at least one of them lasts.

    Intervals that overlap or touch become one; empty ones vanish, and so do those whose start or
    duration is null. The sum of `duration` is the group's busy time, exact in ns.

    Args:
        intervals: any rows with a start and a duration.
        by: columns that name a group; `[]` for one group of all rows.
        start: column of starts, ns.
        duration: column of durations, ns.
        gaps: give instead what lies between the merged intervals of each group.

    Returns:
        Columns `by`, `start` and `duration`; rows in order of `by` and start.

    YAML: `busy: {use: busy, from: kernels, by: [rank, device]}`
    """
    rows = lasting(intervals, start, duration)
    keys, (groups,) = number_groups(by, rows)
    result = union(intervals_of(rows, groups, start, duration))
    if gaps:
        result = complement(result)
    return frame(keys, result.groups, {start: result.starts, duration: result.lengths})
