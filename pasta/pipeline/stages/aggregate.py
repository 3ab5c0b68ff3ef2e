"""Stage `aggregate`: measures of groups of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import check_keys, check_new_names
from pasta.pipeline.expressions import Measure
from pasta.pipeline.stage import Merge, Within, stage

TOO_LARGE = ", too large for "
"""What stands between a sum of integers and its type in the failure of one that does not fit."""


def _group(
    rows: pl.LazyFrame,
    by: list[str],
    columns: Mapping[str, pl.Expr],
    sums: Mapping[str, pl.Expr],
) -> pl.LazyFrame:
    """Return `columns` for each group; integers of `sums` that do not fit their type fail.

    A sum that its check proves is had from it: a GPU takes far longer for three aggregates than for two
    (docs/performance.md, Engines).
    """
    check_keys(rows, by, "by")
    checks = _range_checks(rows, sums)
    proven = {
        name: check.name
        for check in checks
        for name, expression in columns.items()
        if check.proves is not None and expression.meta.eq(check.proves)
    }
    named = [columns[name].alias(name) for name in columns if name not in proven]
    wide = [check.wide.alias(check.name) for check in checks]
    found = rows.group_by(by).agg(*named, *wide) if by else rows.select(*named, *wide)
    if not checks:
        return found
    found = found.with_columns(pl.col(check.name).cast(check.kind) for check in checks)
    found = found.filter(pl.col(check.name).is_not_null() for check in checks)
    return found.select(*by, *(pl.col(proven.get(name, name)).alias(name) for name in columns))


class _RangeCheck(NamedTuple):
    """A sum of integers that may not fit their type, and the same in a wider one.

    Attributes:
        name: what the failure of the cast from the wider type says.
        kind: the type.
        wide: the sum in the wider type.
        proves: the sum, where the wider type holds integers, so that it is the same.
    """

    name: str
    kind: pl.DataType
    wide: pl.Expr
    proves: pl.Expr | None


def _range_checks(rows: pl.LazyFrame, sums: Mapping[str, pl.Expr]) -> list[_RangeCheck]:
    """Return a check for each sum of integers that may not fit.

    Integers wrap where they do not fit. The strict cast of the wider sum to their type fails
    instead, and its message holds the name. Those of 16 bits are summed in 64 anyhow.
    """
    named = {text: operand.alias(text) for text, operand in sums.items()}
    operands = rows.select(named.values()).collect_schema()
    totals = rows.select(operand.sum() for operand in named.values()).collect_schema()
    checks = []
    for text, kind in totals.items():
        if kind.is_integer() and operands[text] == kind:
            name = f"sum({text}){TOO_LARGE}{kind}: cast to a wider type or double"
            is_whole = kind in (pl.Int32, pl.UInt32)
            wide = sums[text].cast(pl.Int64 if is_whole else pl.Float64).sum()
            checks.append(_RangeCheck(name, kind, wide, sums[text].sum() if is_whole else None))
    return checks


def _partial(rows: pl.LazyFrame, *, measures: dict[str, Measure], by: list[str]) -> pl.LazyFrame:
    pieces = {
        column: piece
        for name, measure in measures.items()
        for column, piece in measure.partial(name).items()
    }
    return _sorted(_group(rows, by, pieces, _sums(measures)), by=by)


def _combine(states: pl.LazyFrame, *, measures: dict[str, Measure], by: list[str]) -> pl.LazyFrame:
    pieces = {
        column: piece
        for name, measure in measures.items()
        for column, piece in measure.combined(name).items()
    }
    summed = [
        column
        for name, measure in measures.items()
        for column, part in zip(measure.columns(name), measure.parts, strict=True)
        if measure.sums and part.combine == "sum"
    ]
    added = {column: pl.col(column) for column in summed}
    return _sorted(_group(states, by, pieces, added), by=by)


def _final(state: pl.LazyFrame, *, measures: dict[str, Measure], by: list[str]) -> pl.LazyFrame:
    return state.select(*by, *(measure.final(name) for name, measure in measures.items()))


def _sums(measures: Mapping[str, Measure]) -> dict[str, pl.Expr]:
    return {text: rows for measure in measures.values() for text, rows in measure.sums.items()}


def _all_mergeable(arguments: Mapping[str, Any]) -> bool:
    return all(measure.mergeable for measure in arguments["measures"].values())


def _sorted(groups: pl.LazyFrame, *, by: list[str], **_measures: Any) -> pl.LazyFrame:
    return groups.sort(by) if by else groups  # No two have equal keys.


def _unsorted(rows: pl.LazyFrame, *, measures: dict[str, Measure], by: list[str]) -> pl.LazyFrame:
    check_new_names(measures, "measures")
    for name in measures:
        if name in by:
            raise ConfigError(f"measures.{name}", "'by' has this name; name the measure otherwise")
    taken = {*by, *measures}
    pieces: dict[str, pl.Expr] = {}
    finals = [_measured(name, measure, pieces, taken) for name, measure in measures.items()]
    return _group(rows, by, pieces, _sums(measures)).select(*by, *finals)


def _measured(name: str, measure: Measure, pieces: dict[str, pl.Expr], taken: set[str]) -> pl.Expr:
    """Return a measure in terms of `pieces`, to which what it needs is added, by no `taken` name."""
    if measure.mean or not measure.mergeable:
        pieces[name] = measure.expression
        return pl.col(name)
    columns = []
    for column, piece in measure.partial(name).items():
        known = (other for other, made in pieces.items() if made.meta.eq(piece))
        columns.append(next(known, _free(column, taken)))
        pieces.setdefault(columns[-1], piece)
    return measure.final(name, columns)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "'"
    return name


@stage(
    "aggregate",
    merge=Merge(_partial, _combine, _final, applies=_all_mergeable, keys=lambda given: given["by"]),
    within=Within(lambda given: given["by"], _sorted),
    order="own",
    unsorted=_unsorted,
)
def aggregate(
    rows: pl.LazyFrame,
    *,
    measures: dict[str, Measure],
    by: list[str] = [],  # noqa: B006 (never mutated)
) -> pl.LazyFrame:
    """Compute `measures` for each group of equal `by`, sorted by it; without `by`, over all rows.

    A sum over nothing but nulls is null, as in SQL: unknown, not zero. A sum of integers that does
    not fit its type fails on the CPU; a GPU does not notice.

    YAML: `by_name: {use: aggregate, from: kernels, by: name, measures: {time_ns: sum(dur)}}`
    """
    return _sorted(_unsorted(rows, measures=measures, by=by), by=by)
