"""Stage `overlap`: when intervals of two sets last at once."""

from __future__ import annotations

from typing import Literal

import polars as pl

from pasta.pipeline.columns import frame, intervals_of, lasting, number_groups, sorted_pieces
from pasta.pipeline.kernels.intervals import coverage, union
from pasta.pipeline.stage import Sliced, Within, stage


@stage(
    "overlap",
    needs=lambda given: [*given["by"], given["start"], given["duration"]],
    within=Within(lambda given: given["by"], sorted_pieces),
    sliced=Sliced(),
    order="own",
)
def overlap(
    left: pl.DataFrame,
    right: pl.DataFrame,
    *,
    by: list[str],
    start: str = "ts",
    duration: str = "dur",
    keep: Literal["shared", "left_only"] = "shared",
) -> pl.DataFrame:
    """Find when intervals of two sets last at once, or when only the left set's do.

    Each set counts as the union of its intervals, as in `busy`.

    Args:
        left: rows with a start and a duration.
        right: rows with a start and a duration.
        by: columns that name a group in both; `[]` for one group of all rows.
        start: column of starts, ns.
        duration: column of durations, ns.
        keep: `shared` time, or time that is `left_only`.

    Returns:
        Columns `by`, `start` and `duration` of disjoint intervals, in order of `by` and start.

    YAML: `exposed: {use: overlap, from: {left: communication, right: compute}, by: [rank, device], keep: left_only}`
    """
    sides = [
        lasting(rows, start, duration, where) for where, rows in (("left", left), ("right", right))
    ]
    keys, groups = number_groups(by, *sides)
    pieces, covered = coverage(
        [
            union(intervals_of(rows, group, start, duration))
            for rows, group in zip(sides, groups, strict=True)
        ]
    )
    pieces = pieces.where(covered == (0b11 if keep == "shared" else 0b01))
    return frame(keys, pieces.groups, {start: pieces.starts, duration: pieces.lengths})
