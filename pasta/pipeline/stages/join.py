"""Stage `join`: rows of two inputs matched by equal keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import check_columns, check_keys, check_new_names
from pasta.pipeline.stage import Within, stage

TRACE = "trace"


def _keys(given: Mapping[str, Any]) -> list[str]:
    """Return the columns that both sides match by under one name."""
    on = given["on"]
    return [
        TRACE,
        *([left for left, right in on.items() if left == right] if isinstance(on, dict) else on),
    ]


@stage("join", within=Within(_keys), looks_up=True, order="undefined")
def join(
    left: pl.LazyFrame,
    right: pl.LazyFrame,
    *,
    on: list[str] | dict[str, str],
    how: Literal["inner", "left", "semi", "anti"] = "inner",
    columns: list[str] | dict[str, str] | None = None,
) -> pl.LazyFrame:
    """Match each row of `left` with every row of `right` that has equal keys.

    Keys of type u64 are ids, and an id of 0 is unknown: it joins with nothing. Nulls join with
    nothing either. Where both inputs have the column `trace`, it is a key too, since ids are unique
    only within a trace. The order of the result is not defined: a `sort` or `top` after it defines it.

    Args:
        left: the rows to match.
        right: rows to look up.
        on: key columns; a mapping `left: right` where their names differ.
        how: `inner`; `left` keeps unmatched rows; `semi` and `anti` only filter `left`.
        columns: what `inner` and `left` take from `right` (a mapping `new: old` renames); all of it by
            default, with `_right` after names that `left` has too.

    Raises:
        ConfigError: `on` is empty, or a column is absent, a list, or of different types in both; or
            `columns` are named where none are taken.

    YAML: `named: {use: join, from: [touches, kernels], on: [rank, pid, launch_id]}`
    """
    keys = dict(on) if isinstance(on, dict) else {name: name for name in on}
    _check_keys(left, right, keys)
    schema = right.collect_schema()
    if TRACE in schema and TRACE in left.collect_schema():
        keys[TRACE] = TRACE
    ids = {left: right for left, right in keys.items() if schema[right] == pl.UInt64}
    if ids:
        right = right.filter(pl.all_horizontal(pl.col(key) != 0 for key in ids.values()))
    if columns is not None and how in ("semi", "anti"):
        raise ConfigError("columns", f"a join that is {how} takes none from right; leave it out")
    if columns is not None:
        taken = columns if isinstance(columns, dict) else {name: name for name in columns}
        check_new_names(taken, "columns")
        check_columns(right, taken.values(), "columns")
        right = right.select(
            *keys.values(), *(pl.col(old).alias(new) for new, old in taken.items())
        )
    if how == "left":
        return _left_join(left, right, keys, ids)
    return left.join(right, left_on=list(keys), right_on=list(keys.values()), how=how)


def _left_join(
    left: pl.LazyFrame, right: pl.LazyFrame, keys: Mapping[str, str], ids: Collection[str]
) -> pl.LazyFrame:
    """Join with a 0 in place of each null among `ids`, which joins with nothing either.

    Polars' streaming engine makes a chunk of its own of each row of `left` that has a null in a key, where `right` is
    the larger one: most of a gigabyte for 50 thousand rows.
    """
    known = {name: f"# {name}" for name in ids}
    filled = left.with_columns(pl.col(name).fill_null(0).alias(key) for name, key in known.items())
    return filled.join(
        right,
        left_on=[known.get(name, name) for name in keys],
        right_on=list(keys.values()),
        how="left",
    ).drop(known.values())


def _check_keys(left: pl.LazyFrame, right: pl.LazyFrame, keys: dict[str, str]) -> None:
    """Check that both inputs have the keys, in equal types."""
    if not keys:
        raise ConfigError("on", "needs at least one column")
    check_keys(left, list(keys), "on")
    check_keys(right, list(keys.values()), "on")
    kinds, other = left.collect_schema(), right.collect_schema()
    for key, match in keys.items():
        if kinds[key] != other[match]:
            found = f"{kinds[key]} in left and {other[match]} in right"
            raise ConfigError("on", f"column '{key}' is {found}; cast one")
