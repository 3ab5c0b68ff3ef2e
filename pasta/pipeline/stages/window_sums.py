"""Stage `window_sums`: sums of groups in windows of time, whose length follows from the times."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import frame, integers, number_groups, require
from pasta.pipeline.kernels.counting import extremes, largest_at, window_bits
from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import numbered
from pasta.pipeline.kernels.trees import sums_at
from pasta.pipeline.stage import Merge, stage

_BEGIN, _LENGTH, _COUNT, _TOTAL, _LARGEST = "window_ts", "window_ns", "count", "total", "largest"
_NEW = (_BEGIN, _LENGTH, _COUNT, _TOTAL, _LARGEST)


def _partial(rows: pl.LazyFrame, **given: Any) -> pl.LazyFrame:
    return rows.select(_needs(given)).map_batches(
        partial(window_sums, **given), schema=_schema(rows, given["by"])
    )


def _combine(states: pl.LazyFrame, **given: Any) -> pl.LazyFrame:
    return states.map_batches(partial(_widened, **given), schema=states.collect_schema())


def _final(state: pl.LazyFrame, **_given: Any) -> pl.LazyFrame:
    return state.filter(pl.col(_COUNT) > 0)


def _common(state: pl.LazyFrame, *, clock: list[str], **_given: Any) -> pl.LazyFrame:
    """Return the first and the last window of each clock, empty: how long windows are depends on no more."""
    begin = pl.col(_BEGIN)
    first, last = (end.over(clock) if clock else end for end in (begin.min(), begin.max()))
    ends = state.filter((begin == first) | (begin == last)).unique([*clock, _BEGIN])
    return ends.with_columns(pl.lit(0, pl.Int64).alias(name) for name in (_COUNT, _TOTAL))


def _schema(rows: pl.LazyFrame, by: list[str]) -> pl.Schema:
    kinds = rows.collect_schema()
    return pl.Schema([*((name, kinds[name]) for name in by), *((name, pl.Int64) for name in _NEW)])


def _needs(given: Any) -> list[str]:
    return list(dict.fromkeys([*given["by"], given["time"], given["value"]]))


_MERGE = Merge(_partial, _combine, _final, keys=lambda given: given["by"], common=_common)


@stage("window_sums", merge=_MERGE, needs=_needs, order="own")
def window_sums(
    rows: pl.DataFrame,
    *,
    by: list[str],
    value: str,
    clock: list[str] = [],  # noqa: B006 (never mutated)
    most: int = 64,
    time: str = "ts",
) -> pl.DataFrame:
    """Count rows and sum up a column of integers, for each group in each window of time.

    Windows last a power of two of ns, the shortest of which at most `most` hold all times, and begin
    at multiples of it: windows of parts of the rows are halves, quarters, ... of those of all.

    Args:
        rows: any rows; those whose time or value is null do not count.
        by: columns that name a group.
        value: the column of integers.
        clock: those of `by` whose values have each their own times, as `trace`; they have windows of
            their own length.
        most: windows that there are at most, for each clock.
        time: the column of times, ns.

    Returns:
        Columns `by`; `window_ts`, where the window begins, and `window_ns`, how long it is; `count`,
        `total` and `largest`, of the values. In order of `by`, nulls first, and window.

    Raises:
        ConfigError: `most` is below 2, or `by` lacks a column of `clock`.

    YAML: `{use: window_sums, from: kernels, by: [trace, rank, name], clock: [trace], value: dur}`
    """
    if most < 2:
        raise ConfigError("most", f"must be 2 or more, got {most}")
    if missing := [name for name in clock if name not in by]:
        raise ConfigError("clock", f"'{missing[0]}' is not in by")
    require(rows, [value, time])
    known = rows.drop_nulls([value, time])
    times = integers(known, time)
    ones = array_namespace(times).ones_like(times)
    values = integers(known, value)
    return _summed(known, _Cells(times, ones, ones, values, values), by, clock, most)


def _widened(
    states: pl.DataFrame, *, by: list[str], clock: list[str], most: int, **_given: Any
) -> pl.DataFrame:
    """Return sums of windows of several lengths in windows of one length for each clock."""
    begins, lengths = integers(states, _BEGIN), integers(states, _LENGTH)
    amounts = [integers(states, name) for name in (_COUNT, _TOTAL, _LARGEST)]
    cells = _Cells(begins, lengths, *amounts)
    return _summed(states, cells, by, clock, most)


class _Cells(NamedTuple):
    """What is to be summed up: windows, and the values in them; a row is a window of 1 ns."""

    begins: Any
    lengths: Any
    counts: Any
    totals: Any
    largest: Any


def _summed(
    rows: pl.DataFrame, cells: _Cells, by: list[str], clock: list[str], most: int
) -> pl.DataFrame:
    keys, (groups,) = number_groups(by, rows)
    _, (clocks,) = number_groups(clock, keys)
    xp = array_namespace(groups)
    bits = lowest = clocks[:0]
    if len(groups):
        bits, lowest = _windows(clocks[groups], cells, most)
        bits, lowest = bits[clocks], lowest[clocks]
    windows = (cells.begins >> bits[groups]) - lowest[groups]
    found, places = numbered(groups * most + windows)
    owners, held = xp.divmod(found, most)
    columns = {
        _BEGIN: (held + lowest[owners]) << bits[owners],
        _LENGTH: xp.left_shift(xp.ones_like(owners), bits[owners]),
        _COUNT: sums_at(places, cells.counts, len(found)),
        _TOTAL: sums_at(places, cells.totals, len(found)),
        _LARGEST: largest_at(places, cells.largest, len(found)),
    }
    return frame(keys, owners, columns)


def _windows(clocks: Any, cells: _Cells, most: int) -> tuple[Any, Any]:
    """Return for each clock the power of two that its windows last, and the number of the first."""
    xp = array_namespace(clocks)
    first, last = extremes(clocks, cells.begins)
    so_far = xp.rint(xp.log2(extremes(clocks, cells.lengths)[1])).astype(xp.int64)
    bits = window_bits(first, last, most, so_far)
    return bits, first >> bits
