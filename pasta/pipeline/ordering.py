"""Orders that are always defined: ties are broken by all remaining columns."""

from __future__ import annotations

import polars as pl


def sorted_by(rows: pl.LazyFrame, by: list[str], *, descending: bool = False) -> pl.LazyFrame:
    """Sort by `by`, nulls last, then by all remaining sortable columns, ascending."""
    schema = rows.collect_schema()
    rest = [name for name, kind in schema.items() if name not in by and not kind.is_nested()]
    if not [*by, *rest]:
        return rows
    return nulls_last(rows, [*by, *rest], [descending] * len(by) + [False] * len(rest))


def nulls_last(
    rows: pl.LazyFrame, by: list[str], descending: list[bool], *, stable: bool = False
) -> pl.LazyFrame:
    """Sort by `by`, each in its direction, nulls last; `stable`: equal rows keep their order."""
    # Polars encodes whole rows where all keys put nulls last, which takes five times as long as
    # comparing their values: the last key once more, which decides nothing, has nulls first.
    return rows.sort(
        [*by, by[-1]],
        descending=[*descending, False],
        nulls_last=[True] * len(by) + [False],
        maintain_order=stable,
    )
