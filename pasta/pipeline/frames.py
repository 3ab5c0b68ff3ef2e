"""What stages do with collected rows and arrays, wherever the rows lie.

The rows of an array stage are a `pl.DataFrame` with numpy arrays, or `DeviceRows` with the arrays of
their device. Stages use these functions where they pass from the one to the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, cast

import numpy as np
import polars as pl

from pasta.pipeline.device_rows import Device, DeviceRows
from pasta.pipeline.kernels.namespace import array_namespace

_VALUES = "# values"
_MOST_CHUNKS = 1000
"""From there on a copy takes less time than the cuts."""


def column_array(rows: pl.DataFrame, expression: pl.Expr) -> Any:
    """Return what an expression, which must not be null, is for each row, as an array."""
    if isinstance(rows, DeviceRows):
        rows.hold()
        return rows.device.array(rows.select(expression.alias(_VALUES)).frame, _VALUES)
    return rows.select(expression.alias(_VALUES)).to_series().to_numpy()


def mask(rows: pl.DataFrame, condition: pl.Expr) -> Any:
    """Tell as a bool array for which rows a condition holds; null counts as no."""
    return column_array(rows, condition.fill_null(value=False))


def gather(rows: pl.DataFrame, places: Any) -> pl.DataFrame:
    """Return the rows at `places`, an array of integers from 0 on."""
    if isinstance(rows, DeviceRows):
        return _held(rows.device, rows.device.gather(rows.frame, places))
    chosen: pl.DataFrame = rows[places]
    return chosen


def gather_known(rows: pl.DataFrame, places: Any) -> pl.DataFrame:
    """Return the rows at `places`, and nulls where a place is -1."""
    if isinstance(rows, DeviceRows):
        found = rows.device.gather(rows.frame, places, nulls=True)
        return _held(rows.device, found)
    known = pl.Series(places, dtype=pl.Int64).to_frame("row")
    return rows.select(
        pl.all().gather(known.select(pl.when(pl.col("row") >= 0).then("row"))["row"])
    )


def with_arrays(rows: pl.DataFrame, **arrays: Any) -> pl.DataFrame:
    """Return the rows with arrays of their height as new columns, or in place of old ones."""
    return with_columns_of(rows, from_arrays(arrays, like=rows))


def with_columns_of(rows: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with the columns of `other`, new or in place of old ones."""
    if not isinstance(rows, DeviceRows):
        return in_even_chunks(rows.with_columns(other.get_columns()))
    new = other.rename({name: f"# {name}" for name in other.columns})
    both = beside(rows, new)
    placed = both.with_columns(pl.col(f"# {name}").alias(name) for name in other.columns)
    return placed.drop(new.columns)


def from_arrays(columns: Mapping[str, Any], like: pl.DataFrame) -> pl.DataFrame:
    """Return arrays, or `pl.Series`, as rows that lie where the rows `like` do."""
    if isinstance(like, DeviceRows):
        return _held(like.device, like.device.frame(columns))
    return pl.DataFrame(dict(columns))


def beside(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    """Return the columns of `left` and `right`, rows of one number, beside each other."""
    if isinstance(left, DeviceRows):
        return _held(left.device, left.device.beside(left.frame, right.frame))
    return in_even_chunks(left.hstack(right))


def stacked(parts: Sequence[pl.DataFrame], how: Any = "vertical") -> pl.DataFrame:
    """Return the rows of all `parts` under one another."""
    if isinstance(parts[0], DeviceRows):
        plan = pl.concat([part.lazy() for part in parts], how=how)
        return cast("pl.DataFrame", DeviceRows(parts[0].device, plan))
    return pl.concat(parts, how=how)


def in_even_chunks(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a Polars frame, not copied, with all columns cut into chunks at the same places.

    Where they are cut at different ones, Polars copies all columns for every expression on any of them.
    """
    lengths = {tuple(column.chunk_lengths()) for column in rows.get_columns()}
    if len(lengths) <= 1:
        return rows
    ends = sorted({end for parts in lengths for end in accumulate(parts)})
    if len(ends) > _MOST_CHUNKS:
        return rows.rechunk()
    begins = [0, *ends[:-1]]
    parts = (rows.slice(begin, end - begin) for begin, end in zip(begins, ends, strict=True))
    # What is one chunk already is not copied, and an empty one beside it is left out.
    return pl.concat([part.rechunk() for part in parts], rechunk=False)


def on_host(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows as a Polars frame; few, or they are few bytes that tell what to do next."""
    return rows.to_polars() if isinstance(rows, DeviceRows) else rows


def to_array(values: Any, like: Any) -> Any:
    """Return a host's array where the array `like` lies."""
    return array_namespace(like).asarray(np.asarray(values))


def _held(device: Device, frame: Any) -> pl.DataFrame:
    """Return rows that lie on a device; to a stage they are as Polars' own."""
    return cast("pl.DataFrame", DeviceRows.holding(device, frame))
