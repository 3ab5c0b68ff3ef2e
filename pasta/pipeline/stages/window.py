"""Stage `window`: windows of time, and the rows in each."""

from __future__ import annotations

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.arguments import Nanoseconds
from pasta.pipeline.columns import process_key, require
from pasta.pipeline.stage import WITHIN_PROCESS, stage

MOST_AT_ONCE = 64
_BEGINS, _ORDER, _END = "# begins", "# order", "# end"


@stage(
    "window",
    row_wise=lambda given: given["every"] is not None,
    within=WITHIN_PROCESS,
    order="undefined",
)
def window(
    rows: pl.LazyFrame,
    steps: pl.LazyFrame | None,
    *,
    every: Nanoseconds | None = None,
    slide: Nanoseconds | None = None,
    time: str = "ts",
) -> pl.LazyFrame:
    """Add the window of time that each row falls in.

    Windows are `every` long and follow each other (tumbling), or begin `slide` apart (sliding): a
    row is then repeated for each window that it falls in, and is absent if it falls in none. Or
    they are `steps`, spans of the same process: the last to begin counts, until it ends.

    Args:
        rows: rows with a time.
        steps: spans that are the windows, instead of `every`.
        every: length of a window.
        slide: from the start of a window to that of the next; default `every`.
        time: the column of times, ns.

    Returns:
        The rows with `window`, counted from time 0 or from the process's first step, and
        `window_start`, ns; both null where the time is, or lies in no step. With `steps` also
        `step`, the step's name.

    Raises:
        ConfigError: `time` holds no integers; of `every` and `steps` both or none are given; a
            length is not positive; or a row falls in more than 64 windows.

    YAML: `by_ms: {use: window, from: kernels, every: 1ms}`
    """
    require(rows, [time], "rows")
    if not rows.collect_schema()[time].is_integer():
        raise ConfigError("time", f"column '{time}' holds no integers")
    if (steps is None) == (every is None):
        raise ConfigError("every", "give a length, as `every: 1ms`, or an input `steps`, not both")
    if every is None and slide is not None:
        raise ConfigError("slide", "windows that are steps begin where these do; leave it out")
    if steps is not None:
        return _by_step(rows, steps, time)
    every = every or Nanoseconds(0)
    return _sliding(rows, every, every if slide is None else slide, time)


def _sliding(rows: pl.LazyFrame, every: int, slide: int, time: str) -> pl.LazyFrame:
    for argument, length in (("every", every), ("slide", slide)):
        if length <= 0:
            raise ConfigError(argument, f"must be longer than 0 ns, got {length}")
    copies = -(-every // slide)
    if copies > MOST_AT_ONCE:
        raise ConfigError("slide", f"a row falls in {copies} windows; at most {MOST_AT_ONCE}")
    starts = [(pl.col(time) // slide - back) * slide for back in range(copies)]
    return pl.concat(
        [
            rows.filter((pl.col(time) - start < every).fill_null(back == 0)).with_columns(
                window=start // slide, window_start=start
            )
            for back, start in enumerate(starts)
        ]
    )


def _by_step(rows: pl.LazyFrame, steps: pl.LazyFrame, time: str) -> pl.LazyFrame:
    """Count for each row the steps of its process that have begun, and look the last one up.

    One sort key, twice the time, leaves room to put a step before the rows of the same time.
    """
    process = process_key(rows, steps)
    require(rows, process, "rows")
    require(steps, [*process, "ts", "dur", "name"], "steps")
    last_begun = pl.col(_BEGINS).cum_sum().over(process, order_by=_ORDER) - 1
    begun = steps.filter(pl.col("ts").is_not_null()).select(
        *process,
        pl.lit(1, pl.Int64).alias(_BEGINS),
        (pl.col("ts") * 2).alias(_ORDER),
        pl.col("ts").alias("window_start"),
        (pl.col("ts") + pl.col("dur")).alias(_END),
        pl.col("name").alias("step"),
    )
    kept = rows.drop("window", "window_start", "step", strict=False).with_columns(
        pl.lit(0, pl.Int64).alias(_BEGINS), (pl.col(time) * 2 + 1).alias(_ORDER)
    )
    marks = _with_null_lists(begun.select(*process, _BEGINS, _ORDER), kept, process)
    counted = pl.concat([kept, marks], how="diagonal").with_columns(window=last_begun)
    looked_up = counted.filter(pl.col(_BEGINS) == 0).join(
        begun.with_columns(window=last_begun).drop(_BEGINS, _ORDER),
        on=[*process, "window"],
        how="left",
    )
    begun_by_then = pl.col("window_start") <= pl.col(time)
    inside = begun_by_then & (pl.col(_END).is_null() | (pl.col(time) < pl.col(_END)))
    return looked_up.with_columns(
        pl.when(inside).then(name).alias(name) for name in ("window", "window_start", "step")
    ).drop(_BEGINS, _ORDER, _END)


def _with_null_lists(marks: pl.LazyFrame, kept: pl.LazyFrame, process: list[str]) -> pl.LazyFrame:
    """Return marks with nulls in the columns of lists that `kept` has; a GPU can write none, but joins to none."""
    lists = [name for name, kind in kept.collect_schema().items() if kind.is_nested()]
    if not lists:
        return marks
    nothing = kept.filter(pl.lit(False)).select(*process, *lists)  # noqa: FBT003 (a literal)
    return marks.join(nothing, on=process, how="left")
