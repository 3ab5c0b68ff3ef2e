"""Stage `aggregate`: measures of groups of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from pasta.pipeline.expressions import Measure
from pasta.pipeline.stage import Merge, stage


def _group(rows: pl.LazyFrame, by: list[str], measures: list[pl.Expr]) -> pl.LazyFrame:
    if not by:
        return rows.select(measures)
    return rows.group_by(by).agg(measures).sort(by)


def _partial(rows: pl.LazyFrame, *, measures: dict[str, Measure], by: list[str]) -> pl.LazyFrame:
    return _group(rows, by, [e for name, m in measures.items() for e in m.partial(name)])


def _combine(states: pl.LazyFrame, *, measures: dict[str, Measure], by: list[str]) -> pl.LazyFrame:
    return _group(states, by, [e for name, m in measures.items() for e in m.combined(name)])


def _final(state: pl.LazyFrame, *, measures: dict[str, Measure], by: list[str]) -> pl.LazyFrame:
    return state.select(*by, *(measure.final(name) for name, measure in measures.items()))


def _all_mergeable(arguments: Mapping[str, Any]) -> bool:
    return all(measure.mergeable for measure in arguments["measures"].values())


@stage("aggregate", merge=Merge(_partial, _combine, _final, applies=_all_mergeable))
def aggregate(
    rows: pl.LazyFrame,
    *,
    measures: dict[str, Measure],
    by: list[str] = [],  # noqa: B006 (never mutated)
) -> pl.LazyFrame:
    """Compute `measures` for each group of equal `by`, sorted by it; without `by`, over all rows.

    A sum over nothing but nulls is null, as in SQL: unknown, not zero.

    YAML: `by_name: {use: aggregate, from: kernels, by: name, measures: {time_ns: sum(dur)}}`
    """
    return _group(rows, by, [m.expression.alias(name) for name, m in measures.items()])
