"""Stage `concat`: the rows of several inputs under one another."""

from __future__ import annotations

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import check_added
from pasta.pipeline.stage import stage


@stage("concat", row_wise=True)
def concat(
    *inputs: pl.LazyFrame,
    label: str | None = None,
    values: list[str] = [],  # noqa: B006 (never mutated)
) -> pl.LazyFrame:
    """Put the rows of all inputs under one another; a column that an input lacks is null there.

    With `label`, a column of that name says which input a row is from: one of `values`.

    Raises:
        ConfigError: two inputs hold a column in different types, `values` are not one for each
            input that `label` is to name, or an input has a column of that name.

    YAML: `work: {use: concat, from: [kernels, copies], label: what, values: [kernel, copy]}`
    """
    if not inputs:
        raise ConfigError("from", "needs at least one input")
    if label is None and values:
        raise ConfigError("label", "needs the name of the column that `values` are for")
    if label is not None and len(values) != len(inputs):
        raise ConfigError("values", f"needs one value for each of the {len(inputs)} inputs")
    for rows in inputs:
        check_added(rows, [] if label is None else [label], "label")
    columns: dict[str, pl.DataType] = {}
    for rows in inputs:
        for name, kind in rows.collect_schema().items():
            if columns.setdefault(name, kind) != kind:
                found = f"{columns[name]} and {kind}"
                raise ConfigError("from", f"the inputs hold column '{name}' as {found}; cast one")
    parts = []
    for position, rows in enumerate(inputs):
        present = rows.collect_schema()
        part = rows.select(
            pl.col(name) if name in present else pl.lit(None, dtype=kind).alias(name)
            for name, kind in columns.items()
        )
        if label is not None:
            part = part.with_columns(pl.lit(values[position]).alias(label))
        parts.append(part)
    return pl.concat(parts)
