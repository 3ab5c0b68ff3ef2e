"""Stage `coverage`: which kinds of interval cover each piece of time."""

from __future__ import annotations

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import (
    frame,
    intervals_of,
    lasting,
    number_groups,
    require,
    sorted_pieces,
)
from pasta.pipeline.frames import mask
from pasta.pipeline.kernels.intervals import coverage as cut
from pasta.pipeline.kernels.intervals import union
from pasta.pipeline.stage import Sliced, Within, stage

MOST_KINDS = 62


@stage(
    "coverage",
    needs=lambda given: [*given["by"], given["kind"], given["start"], given["duration"]],
    within=Within(lambda given: given["by"], sorted_pieces),
    sliced=Sliced(flags=lambda given: given["kinds"], fills=True),
    order="own",
)
def coverage(
    intervals: pl.DataFrame,
    *,
    by: list[str],
    kind: str,
    kinds: list[str],
    start: str = "ts",
    duration: str = "dur",
) -> pl.DataFrame:
    """Cut each group's time into pieces and tell which kinds of interval cover each of them.

    A piece lies between two moments at which any kind begins or ends to be busy; from the group's
    first start to its last end nothing is left out, so that the pieces' durations sum to the span
    and sums over any choice of pieces never count a moment twice.

    Args:
        intervals: rows with a start, a duration and a kind.
        by: columns that name a group; `[]` for one group of all rows.
        kind: the column that holds the kind, as text; rows of no named kind do not count.
        kinds: the kinds, each of which becomes a column.
        start: column of starts, ns.
        duration: column of durations, ns.

    Returns:
        Columns `by`, `start`, `duration` and a bool for each kind; rows in order of `by`, start.

    Raises:
        ConfigError: `kind` holds no text; `kinds` is empty, names one twice, or names a column that
            is there already.

    YAML: `pieces: {use: coverage, from: work, by: [rank, device], kind: what, kinds: [compute, copying]}`
    """
    require(intervals, [kind])
    if intervals.schema[kind] != pl.String:
        raise ConfigError("kind", f"column '{kind}' is {intervals.schema[kind]}; expected text")
    if not 0 < len(kinds) <= MOST_KINDS:
        raise ConfigError("kinds", f"expected 1 to {MOST_KINDS} kinds, got {len(kinds)}")
    if len({*by, *kinds, start, duration}) < len(by) + len(kinds) + 2:
        raise ConfigError("kinds", "each kind becomes a column; names must differ from all others")
    rows = lasting(intervals, start, duration).filter(pl.col(kind).is_in(kinds))
    keys, (groups,) = number_groups(by, rows)
    every = intervals_of(rows, groups, start, duration)
    pieces, covered = cut(
        [union(every.where(mask(rows, pl.col(kind) == value))) for value in kinds]
    )
    columns = {start: pieces.starts, duration: pieces.lengths}
    columns |= {value: covered & (1 << bit) != 0 for bit, value in enumerate(kinds)}
    return frame(keys, pieces.groups, columns)
