"""Stage `cut`: rows in pieces, wherever something else begins or ends."""

from __future__ import annotations

import polars as pl

from pasta.pipeline.columns import (
    integers,
    intervals_of,
    lasting,
    number_groups,
    require,
)
from pasta.pipeline.frames import gather, mask, with_arrays
from pasta.pipeline.kernels.intervals import Intervals, cut_inside
from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.stage import Within, stage

_START, _DURATION = "# start", "# duration"


@stage("cut", within=Within(lambda given: given["by"]))
def cut(
    rows: pl.DataFrame,
    others: pl.DataFrame,
    *,
    by: list[str],
    start: str = "ts",
    duration: str = "dur",
) -> pl.DataFrame:
    """Cut each row where one of the others begins or ends, so that each lasts for all of a piece or none.

    Args:
        rows: rows with a start and a duration.
        others: rows with a start and a duration; those without either do not count.
        by: columns that name a group in both; `[]` for one group of all rows.
        start: column of starts, ns.
        duration: column of durations, ns.

    Returns:
        A row for each piece, with all columns of the row that it is cut from; in order of the rows and of
        time. The durations of a row's pieces add up to its own; a row without start or duration stays whole.

    YAML: `pieces: {use: cut, from: {rows: gaps, others: samples}, by: [rank, pid, tid]}`
    """
    require(rows, [start, duration], "rows")
    marks = lasting(others, start, duration, "others")
    _, (groups, mark_groups) = number_groups(by, rows, marks)
    known = pl.col(start).is_not_null() & pl.col(duration).is_not_null()
    starts, durations = integers(rows, start), integers(rows, duration) * mask(rows, known)
    marked = intervals_of(marks, mark_groups, start, duration)
    xp = array_namespace(groups)
    places, begins, ends = cut_inside(
        Intervals(groups, starts, starts + durations),
        xp.concatenate([mark_groups, mark_groups]),
        xp.concatenate([marked.starts, marked.ends]),
    )
    whole = rows if len(places) == rows.height else gather(rows, places)
    pieces = with_arrays(whole, **{_START: begins, _DURATION: ends - begins})
    return pieces.with_columns(
        pl.when(known).then(_START).otherwise(start).alias(start),
        pl.when(known).then(_DURATION).otherwise(duration).alias(duration),
    ).drop(_START, _DURATION)
