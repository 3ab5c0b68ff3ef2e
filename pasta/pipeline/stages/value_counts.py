"""Stage `value_counts`: how often each value occurs in groups of rows."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from pasta.errors import ConfigError
from pasta.pipeline.columns import check_keys, frame, integers, number_groups, require
from pasta.pipeline.kernels.counting import Counts, counted, merged
from pasta.pipeline.kernels.counting import tick as tick_of
from pasta.pipeline.stage import Merge, stage

_COUNT = "count"


def _partial(
    rows: pl.LazyFrame, *, by: list[str], value: str, tick: str | None = None
) -> pl.LazyFrame:
    """Return a row for each group, with its values and their counts as lists."""
    return rows.select(*by, value).map_batches(
        partial(_counted_lists, by=by, value=value, tick=tick),
        schema=_schema(rows, by, value, tick),
    )


def _combine(
    states: pl.LazyFrame, *, by: list[str], value: str, tick: str | None = None
) -> pl.LazyFrame:
    return states.map_batches(
        partial(_merged_lists, by=by, value=value, tick=tick), schema=states.collect_schema()
    )


def _final(state: pl.LazyFrame, *, value: str, **_given: Any) -> pl.LazyFrame:
    return state.explode(value, _COUNT, empty_as_null=False)


def _common(state: pl.LazyFrame, *, value: str, **_given: Any) -> pl.LazyFrame:
    """Return a row without values, which has the tick of all of them."""
    return state.head(1).with_columns(pl.col(value, _COUNT).list.head(0))


def _schema(rows: pl.LazyFrame, by: list[str], value: str, tick: str | None) -> pl.Schema:
    kinds, lists = rows.collect_schema(), pl.List(pl.Int64)
    keys = [(name, kinds[name]) for name in by]
    ticks = [] if tick is None else [(tick, pl.Int64)]
    return pl.Schema([*keys, (value, lists), (_COUNT, lists), *ticks])


def _counted_lists(
    rows: pl.DataFrame, *, by: list[str], value: str, tick: str | None
) -> pl.DataFrame:
    keys, counts = _counts(rows, by, value)
    return _with_tick(_lists(keys, counts, value), tick, counts.values)


def _merged_lists(
    states: pl.DataFrame, *, by: list[str], value: str, tick: str | None
) -> pl.DataFrame:
    keys, (groups,) = number_groups(by, states)
    lengths = states[value].list.len().to_numpy()
    values, counts = (
        states[name].explode(empty_as_null=False).to_numpy() for name in (value, _COUNT)
    )
    lists = _lists(keys, merged(groups.repeat(lengths), values, counts), value)
    return lists if tick is None else _with_tick(lists, tick, integers(states, tick))


def _lists(keys: pl.DataFrame, counts: Counts, value: str) -> pl.DataFrame:
    edges = np.append(counts.first, len(counts.groups))
    lists = {
        name: pl.Series(pa.LargeListArray.from_arrays(pa.array(edges), pa.array(amounts)))
        for name, amounts in ((value, counts.values), (_COUNT, counts.counts))
    }
    return frame(keys, counts.groups[counts.first], lists)


def _with_tick(rows: pl.DataFrame, tick: str | None, values: Any) -> pl.DataFrame:
    """Return rows with the tick of the clock that counted `values`, under the name `tick` if there is one."""
    if tick is None:
        return rows
    return rows.with_columns(pl.lit(tick_of(values), pl.Int64).alias(tick))


def _counts(rows: pl.DataFrame, by: list[str], value: str) -> tuple[pl.DataFrame, Counts]:
    known = rows.drop_nulls(value)
    keys, (groups,) = number_groups(by, known)
    return keys, counted(groups, integers(known, value))


@stage(
    "value_counts",
    merge=Merge(_partial, _combine, _final, keys=lambda given: given["by"], common=_common),
    needs=lambda given: [*given["by"], given["value"]],
    order="own",
)
def value_counts(
    rows: pl.DataFrame, *, by: list[str], value: str, tick: str | None = None
) -> pl.DataFrame:
    """Count how often each value of a column of integers occurs in each group.

    Counts of parts of the rows add up, so that quantiles of any number of rows are exact where all rows
    never meet. Their size is that of the distinct values: few where a clock ticks slowly.

    Args:
        rows: any rows; those whose value is null do not count.
        by: columns that name a group; `[]` for one group of all rows.
        value: the column of integers.
        tick: name of a new column with the greatest common divisor of all values, over all groups: what the
            clock that counted them tells apart.

    Returns:
        Columns `by`, `value`, `count` and `tick`; in order of `by`, nulls first, and value.

    Raises:
        ConfigError: a column is absent, `value` holds no integers, or two columns of the result
            would have one name.

    YAML: `durations: {use: value_counts, from: kernels, by: [name], value: dur}`
    """
    require(rows, [value])
    check_keys(rows.lazy(), by, "by")
    names = [*by, value, _COUNT, *([] if tick is None else [tick])]
    for name in names:
        if names.count(name) > 1:
            problem = f"two columns of the result would be called '{name}'; rename one before"
            raise ConfigError("", problem)
    keys, counts = _counts(rows, by, value)
    found = frame(keys, counts.groups, {value: counts.values, _COUNT: counts.counts})
    return _with_tick(found, tick, counts.values)
