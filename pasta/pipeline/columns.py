"""Columns that stages need, and the way between frames and the arrays that kernels work on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from pasta.errors import ConfigError, did_you_mean
from pasta.pipeline.device_rows import DeviceRows
from pasta.pipeline.frames import (
    beside,
    column_array,
    from_arrays,
    gather,
    on_host,
    stacked,
    with_arrays,
)
from pasta.pipeline.kernels.intervals import Intervals
from pasta.pipeline.kernels.ordering import numbered

_GROUP, _ROW = "# group", "# row"
_FEW = 1 << 12
_FIRST = np.iinfo(np.int64).min
_MOST_SOUGHT = 1 << 16
"""Values up to which to look for each row's by bisection is as fast as to sort the rows, where rows of equal values
mostly follow each other; of 400 thousand in any order it takes eight times as long."""


def require(rows: pl.DataFrame | pl.LazyFrame, columns: Iterable[str], where: str = "") -> None:
    """Check that `rows` has `columns`.

    Args:
        rows: the input.
        columns: names that must be there.
        where: the input's name, for stages with several.

    Raises:
        ConfigError: one is absent.
    """
    present = names(rows)
    for column in columns:
        if column not in present:
            hint = did_you_mean(column, present)
            raise ConfigError(f"from.{where}" if where else "", f"needs column '{column}'.{hint}")


def check_columns(rows: pl.DataFrame | pl.LazyFrame, columns: Iterable[str], argument: str) -> None:
    """Check that the columns which `argument` names are columns of `rows`.

    Nothing else may reach `pl.col`, which would take `*` and `^...$` for patterns.

    Raises:
        ConfigError: one is absent; with the argument as path.
    """
    present = names(rows)
    for column in columns:
        if column not in present:
            raise ConfigError(argument, f"no column '{column}'.{did_you_mean(column, present)}")


def check_new_names(new: Iterable[str], argument: str) -> None:
    """Check that no new column gets a name that `pl.col` takes for a pattern.

    Raises:
        ConfigError: one does; with the argument as path.
    """
    for name in new:
        if not name or name == "*" or (name.startswith("^") and name.endswith("$")):
            raise ConfigError(argument, f"'{name}' would be read as a pattern; name it otherwise")


def check_added(rows: pl.DataFrame | pl.LazyFrame, new: Iterable[str], argument: str) -> None:
    """Check that new columns take the place of none of `rows`, which would be lost silently.

    Raises:
        ConfigError: one does, or gets a name that `check_new_names` refuses; with the argument as path.
    """
    new, present = list(new), names(rows)
    check_new_names(new, argument)
    for name in new:
        if name in present:
            problem = (
                f"the rows have a column '{name}' already; name the new one otherwise, or leave"
            )
            raise ConfigError(argument, f"{problem} theirs out before by 'select'")


def check_keys(rows: pl.DataFrame | pl.LazyFrame, columns: Sequence[str], argument: str) -> None:
    """Check that `rows` can be ordered, grouped or matched by the columns that `argument` names.

    Raises:
        ConfigError: one is absent or holds lists.
    """
    check_columns(rows, columns, argument)
    schema = rows.collect_schema()
    for column in columns:
        if schema[column].is_nested():
            raise ConfigError(
                argument, f"column '{column}' is {schema[column]}; a list is no key, choose another"
            )


def names(rows: pl.DataFrame | pl.LazyFrame) -> list[str]:
    """Return the names of the columns of `rows`."""
    return rows.columns if isinstance(rows, pl.DataFrame) else rows.collect_schema().names()


def process_key(*inputs: pl.DataFrame | pl.LazyFrame, within: Sequence[str] = ()) -> list[str]:
    """Return the columns that name a process in all `inputs`, and then those of `within`."""
    traces = ["trace"] if all("trace" in names(rows) for rows in inputs) else []
    return [*traces, "rank", "pid", *within]


def integers(rows: pl.DataFrame, column: str, null: int = 0) -> Any:
    """Return a column as an int64 array, with `null` in place of nulls.

    Raises:
        ConfigError: the column is absent or holds no integers.
    """
    _check_integers(rows, column)
    return column_array(rows, pl.col(column).cast(pl.Int64).fill_null(null))


def unsigned(rows: pl.DataFrame, column: str, null: int = 0) -> Any:
    """Return a column of ids or addresses as a u64 array, with `null` in place of nulls.

    Raises:
        ConfigError: the column is absent or holds no integers.
    """
    _check_integers(rows, column)
    return column_array(rows, pl.col(column).cast(pl.UInt64).fill_null(null))


def _check_integers(rows: pl.DataFrame, column: str) -> None:
    require(rows, [column])
    kind = rows.schema[column]
    if not (kind.is_integer() or kind == pl.Null):
        raise ConfigError("", f"column '{column}' is {kind}; expected integers")


def ordinals(rows: pl.DataFrame, column: str) -> Any:
    """Return a column of integers to be ordered by, of any width, as an array; null comes first.

    Raises:
        ConfigError: the column is absent or holds no integers.
    """
    if rows.schema.get(column) == pl.UInt64:
        return unsigned(rows, column)
    return integers(rows, column, _FIRST)


def numbers(rows: pl.DataFrame, column: str) -> Any:
    """Return a column to be summed, as an int64 or f64 array with 0 in place of nulls.

    Raises:
        ConfigError: the column is absent or holds no numbers.
    """
    require(rows, [column])
    kind = rows.schema[column]
    if not (kind.is_numeric() or kind == pl.Boolean):
        raise ConfigError("values", f"column '{column}' is {kind}; expected numbers")
    wide = pl.Float64 if kind.is_float() else pl.Int64
    return column_array(rows, pl.col(column).cast(wide).fill_null(0))


def number_groups(by: Sequence[str], *inputs: pl.DataFrame) -> tuple[pl.DataFrame, list[Any]]:
    """Number the distinct values of `by` over all `inputs`, in their sort order, nulls first.

    Returns:
        The values, a row for each group, and for each input the int64 group of its rows.

    Raises:
        ConfigError: an input lacks a column of `by`, has it in another type than the first, or as
            lists.
    """
    for rows in inputs:
        check_keys(rows, by, "by")
        for name in by:
            if rows.schema[name] != inputs[0].schema[name]:
                found = f"{inputs[0].schema[name]} and {rows.schema[name]}"
                raise ConfigError("by", f"the inputs hold column '{name}' as {found}; cast one")
    if isinstance(inputs[0], DeviceRows):
        return _numbered_by_joins(by, inputs)
    keys = pl.concat([rows.head(1).select(by) for rows in inputs]).head(1)
    varying = [name for name in by if not constant([rows[name] for rows in inputs])]
    codes = np.zeros(sum(rows.height for rows in inputs), dtype=np.int64)
    for column in _with_categories(pl.concat([rows.select(varying) for rows in inputs])):
        told = None if keys.height == 1 else _told(column, codes, keys.height)
        if told is not None:
            keys = keys.with_columns(told)
            continue
        values, places = _numbered_column(column, text=keys.schema[column.name] == pl.String)
        if keys.height == 1:  # As yet all rows are one group, and all values occur in it.
            combinations, codes = np.arange(len(values)), places
        else:
            combinations, codes = numbered(codes * len(values) + places)
        keys = keys[combinations // len(values)].with_columns(values[combinations % len(values)])
    ends = np.cumsum([rows.height for rows in inputs])
    return keys, np.split(codes, ends[:-1])


def _told(column: pl.Series, codes: Any, count: int) -> pl.Series | None:
    """Return the integer that a column holds in each of `count` groups; `None` where one holds several.

    The duration of a launch follows from its id, and needs no numbers of its own.
    """
    if not column.dtype.is_integer() or column.null_count():
        return None
    values = column.to_numpy()
    found = np.zeros(count, dtype=values.dtype)
    for rows in (slice(_FEW), slice(None)):  # Where a group holds several, few rows mostly show it.
        found[codes[rows]] = values[rows]
        if (found[codes[rows]] != values[rows]).any():
            return None
    return pl.Series(column.name, found)


def _numbered_by_joins(by: Sequence[str], inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Number groups on a device, where a join keeps no order: each row carries its place."""
    xp = inputs[0].device.xp
    groups = [xp.zeros(rows.height, dtype=xp.int64) for rows in inputs]
    if not by:
        return inputs[0].select([]), groups
    keys = stacked([rows.select(by).unique() for rows in inputs]).unique().sort(by)
    counts = on_host(keys.select(pl.col(by).n_unique()))
    varying = [name for name in by if counts[name].sum() != 1]
    if not varying:
        return keys, groups
    numbered_keys = with_arrays(keys.select(varying), **{_GROUP: xp.arange(keys.height)})
    for rows, codes in zip(inputs, groups, strict=True):
        asking = with_arrays(rows.select(varying), **{_ROW: xp.arange(rows.height)})
        found = asking.join(numbered_keys, on=varying, how="inner", nulls_equal=True)
        codes[integers(found, _ROW)] = integers(found, _GROUP)
    return keys, groups


def constant(columns: Sequence[pl.Series]) -> bool:
    """Tell whether all values of all `columns` are one, as trace and process often are."""
    if all(column.null_count() == len(column) for column in columns):
        return True
    if any(column.null_count() for column in columns):
        return False
    ends = {column[place] for column in columns if len(column) for place in (0, -1)}
    return len(ends) <= 1 and all((column == value).all() for value in ends for column in columns)


def _with_categories(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with their texts as categories, numbered as they first occur, column beside column."""
    kinds = {
        name: pl.Categorical(pl.Categories.random())
        for name, kind in rows.schema.items()
        if kind == pl.String
    }
    return rows.with_columns(pl.col(name).cast(kind) for name, kind in kinds.items())


def _numbered_column(column: pl.Series, *, text: bool) -> tuple[pl.Series, Any]:
    """Return the distinct values of a column, sorted, nulls first, and for each row the place of its value.

    Texts are numbered as categories, which `column` then holds, integers by a table, by bisection or by sorting,
    floats by bisection, others by a join.
    """
    if text:
        return _sorted_texts(column)
    values = column.unique().sort()
    if column.dtype.is_integer() and not column.null_count():
        return values, _integer_places(values.to_numpy(), column.to_numpy())
    if column.dtype.is_float():
        return values, _float_places(values, column)
    return values, _joined_places(values, column)


def _sorted_texts(column: pl.Series) -> tuple[pl.Series, Any]:
    """Return the categories of a column in the order of texts, nulls first, and for each row the place of its own."""
    found = column.unique()
    texts = found.cast(pl.String)
    order = texts.arg_sort().to_numpy()
    null = len(found) - 1  # Where there are nulls, the others are numbered from 0 up to before it.
    places = np.empty(len(found), dtype=np.int64)
    places[found.to_physical().fill_null(null).to_numpy()[order]] = np.arange(len(found))
    return texts.sort(), places[column.to_physical().fill_null(null).to_numpy()]


def _integer_places(values: Any, column: Any) -> Any:
    """Return the places of a column's integers among the sorted `values`, which hold all of them."""
    width = int(values[-1]) - int(values[0]) + 1 if len(values) else 0
    wide = np.uint64 if values.dtype == np.uint64 else np.int64
    if len(values) > _MOST_SOUGHT and width > len(column):
        return numbered(column.astype(wide))[1]
    if not len(column) or width > len(column):
        return np.searchsorted(values, column)
    values, column = values.astype(wide), column.astype(wide)
    table = np.zeros(width, dtype=np.int64)
    table[values - values[0]] = np.arange(len(values))
    return table[column - values[0]]


def _float_places(values: pl.Series, column: pl.Series) -> Any:
    """Return the places of a column's floats; NaN is the greatest, which a join of sorted columns loses."""
    nulls = values.null_count()
    places = nulls + np.searchsorted(values.drop_nulls().to_numpy(), column.to_numpy())
    places[column.is_null().to_numpy()] = 0
    return places


def _joined_places(values: pl.Series, column: pl.Series) -> Any:
    name = column.name
    numbered_values = pl.DataFrame({name: values}).with_row_index(_GROUP)
    found = column.to_frame().join(
        numbered_values, on=name, how="left", nulls_equal=True, maintain_order="left"
    )
    return found[_GROUP].cast(pl.Int64).to_numpy()


def frame(keys: pl.DataFrame, groups: Any, columns: Mapping[str, Any]) -> pl.DataFrame:
    """Return array `columns` as a frame, after the values of `keys` for each row's group."""
    rows: pl.DataFrame = from_arrays(columns, like=keys)
    return rows if keys.width == 0 else beside(gather(keys, groups), rows)


def sorted_pieces(
    pieces: pl.LazyFrame, *, by: Sequence[str], start: str, **_arguments: Any
) -> pl.LazyFrame:
    """Return disjoint intervals of all groups in order of `by`, nulls first, and start."""
    return pieces.sort(*by, start, maintain_order=True)


def lasting(rows: pl.DataFrame, start: str, duration: str, where: str = "") -> pl.DataFrame:
    """Return the rows that have both a start and a duration."""
    require(rows, [start, duration], where)
    return rows.drop_nulls([start, duration])


def intervals_of(rows: pl.DataFrame, groups: Any, start: str, duration: str) -> Intervals:
    """Return the intervals that `lasting` rows stand for, as arrays.

    Raises:
        ConfigError: a column holds no integers, or an end is beyond 64 bits.
    """
    starts = integers(rows, start)
    return Intervals(groups, starts, _ends(starts, integers(rows, duration)))


def extents(spans: pl.DataFrame) -> tuple[Any, Any]:
    """Return the starts and ends of spans.

    Nobody knows when one without `dur` ended. It counts as an instant, so that it encloses nothing:
    if it lasted to the end, all that follows on its thread would seem to lie in it.

    Raises:
        ConfigError: a column is absent or holds no integers, or an end is beyond 64 bits.
    """
    starts = integers(spans, "ts")
    return starts, _ends(starts, integers(spans, "dur"))


def _ends(starts: Any, durations: Any) -> Any:
    ends = starts + durations
    if bool(((ends < starts) & (durations > 0)).any()):
        raise ConfigError("", "an interval ends after the last time that 64 bits can hold")
    return ends
