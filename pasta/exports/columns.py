"""Columns of texts and of keys turned into others, each distinct value once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray


def mapped(
    values: pl.Series, function: Callable[[Any], Any], kind: type[pl.DataType], *, unknown: Any = ""
) -> pl.Series:
    """Return what `function` makes of each value, of `unknown` where there is none.

    Args:
        values: texts, also as categories, or numbers.
        function: is called once for each distinct value.
        kind: type of what it returns.
        unknown: what stands for null.
    """
    nothing = function(unknown) if values.null_count() else None
    known = values.drop_nulls().unique()
    if not len(known):
        return pl.Series(values.name, [nothing], kind).new_from_index(0, len(values))
    texts = known.cast(pl.String) if known.dtype == pl.Categorical else known
    made = pl.Series([function(text) for text in texts], dtype=kind)
    if known.dtype == pl.Categorical:
        known, values = known.to_physical(), values.to_physical()
    return values.replace_strict(known, made, default=nothing, return_dtype=kind)


def numbered(
    rows: pl.DataFrame, columns: Sequence[str], number: Callable[[tuple[Any, ...]], int]
) -> NDArray[np.int64]:
    """Return a number for each row by its values in some columns, asked for once for each."""
    keys = rows.select(columns).unique(maintain_order=True)
    numbers = [number(key) for key in keys.rows()]
    if len(numbers) < 2:
        return np.full(rows.height, numbers[0] if numbers else 0, np.int64)
    found = rows.select(columns).join(
        keys.with_columns(pl.Series("", numbers, pl.Int64)),
        on=list(columns),
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    return found[""].to_numpy()
