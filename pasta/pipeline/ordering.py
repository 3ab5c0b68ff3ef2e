"""Orders that are always defined: ties are broken by all remaining columns."""

from __future__ import annotations

import polars as pl


def sorted_by(rows: pl.LazyFrame, by: list[str], *, descending: bool = False) -> pl.LazyFrame:
    """Sort by `by`, nulls last, then by all remaining sortable columns, ascending."""
    schema = rows.collect_schema()
    rest = [name for name, kind in schema.items() if name not in by and not kind.is_nested()]
    directions = [descending] * len(by) + [False] * len(rest)
    return rows.sort([*by, *rest], descending=directions, nulls_last=True)
