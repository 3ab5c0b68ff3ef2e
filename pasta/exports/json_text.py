"""JSON objects written by columns: expressions that give the text of each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import msgspec
import polars as pl
import pyarrow as pa

from pasta.exports.columns import mapped


def text(*pieces: str | pl.Expr | pl.Series) -> pl.Expr:
    """Return texts and columns written one after the other; null where a column is."""
    return pl.concat_str([p if isinstance(p, pl.Expr) else pl.lit(p) for p in pieces])


def quoted(texts: pl.Series, written: Callable[[str], str] = str) -> pl.Series:
    """Return what is written of each text as JSON has it, with quotation marks; empty for null."""
    return mapped(texts, lambda text: msgspec.json.encode(written(text)).decode(), pl.String)


def members(values: Mapping[str, pl.Expr]) -> pl.Expr:
    """Return members of an object, those left out of which the value is null; a comma before each."""
    return text(*(text(f',"{name}":', value).fill_null("") for name, value in values.items()))


def known(column: str) -> pl.Expr:
    """Return a column, null where it is an id that is not known."""
    return pl.when(pl.col(column) != 0).then(column)


def microseconds(time: pl.Expr) -> pl.Expr:
    """Return a time in ns as decimal text of microseconds."""
    return text(time // 1000, ".", (time % 1000).cast(pl.String).str.zfill(3))


def content(rows: pl.Series) -> memoryview:
    """Return the texts of all rows one after the other, encoded."""
    texts = rows.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    offsets, values = (memoryview(cast(pa.Buffer, buffer)) for buffer in texts.buffers()[1:])
    ends = offsets.cast("q")[texts.offset : texts.offset + len(texts) + 1]
    return values[ends[0] : ends[-1]]
