"""Stage `aggregate`: measures of groups of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from pasta.pipeline.columns import check_keys, check_new_names
from pasta.pipeline.expressions import Measure
from pasta.pipeline.stage import Merge, Within, stage

TOO_LARGE = ", too large for "
"""What stands between a sum of integers and its type in the failure of one that does not fit."""


def _group(
    rows: pl.LazyFrame, by: list[str], measures: list[pl.Expr], sums: dict[str, pl.Expr]
) -> pl.LazyFrame:
    check_keys(rows, by, "by")
    checks = _range_checks(rows, sums)
    if by:
        found = rows.group_by(by).agg(*measures, *checks.values())
    else:
        found = rows.select(*measures, *checks.values())
    if checks:
        found = found.filter(pl.col(name).cast(kind).is_not_null() for name, kind in checks)
        found = found.drop(name for name, _ in checks)
    return found


def _range_checks(
    rows: pl.LazyFrame, sums: dict[str, pl.Expr]
) -> dict[tuple[str, pl.DataType], pl.Expr]:
    """Return for each sum of integers that may not fit the same in a wider type, under a name for messages.

    Integers wrap where they do not fit. The strict cast of the wider sum to their type fails
    instead, and its message holds the name. Those of 16 bits are summed in 64 anyhow.
    """
    named = {text: operand.alias(text) for text, operand in sums.items()}
    operands = rows.select(named.values()).collect_schema()
    totals = rows.select(operand.sum() for operand in named.values()).collect_schema()
    checks: dict[tuple[str, pl.DataType], pl.Expr] = {}
    for text, kind in totals.items():
        if kind.is_integer() and operands[text] == kind:
            name = f"sum({text}){TOO_LARGE}{kind}: cast to a wider type or double"
            wider = pl.Int64 if kind in (pl.Int32, pl.UInt32) else pl.Float64
            checks[name, kind] = sums[text].cast(wider).sum().alias(name)
    return checks


def _partial(rows: pl.LazyFrame, *, measures: dict[str, Measure], by: list[str]) -> pl.LazyFrame:
    pieces = [piece for name, measure in measures.items() for piece in measure.partial(name)]
    return _sorted(_group(rows, by, pieces, _sums(measures)), by=by)


def _combine(states: pl.LazyFrame, *, measures: dict[str, Measure], by: list[str]) -> pl.LazyFrame:
    pieces = [piece for name, measure in measures.items() for piece in measure.combined(name)]
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
    return groups.sort(by, maintain_order=True) if by else groups


def _unsorted(rows: pl.LazyFrame, *, measures: dict[str, Measure], by: list[str]) -> pl.LazyFrame:
    check_new_names(measures, "measures")
    wanted = [measure.expression.alias(name) for name, measure in measures.items()]
    return _group(rows, by, wanted, _sums(measures))


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
