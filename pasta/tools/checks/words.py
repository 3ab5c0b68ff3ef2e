"""The words that the sentences of all checks share."""

from __future__ import annotations

import polars as pl

from pasta.schema import TABLES
from pasta.tools.units import human, shorten
from pasta.trace import Trace

_LABELS = ("name", "operation", "event", "kind")
_SMALLEST = 0.001


def time(nanoseconds: int) -> str:
    """Return a time in a readable unit."""
    return human(nanoseconds, "dur")


def share(part: int, whole: int) -> str:
    """Return a part of a whole in percent; one that is neither nothing nor all never looks so."""
    if 0 < part < whole * _SMALLEST:
        return "under 0.1 %"
    if whole * (1 - _SMALLEST) < part < whole:
        return "over 99.9 %"
    return f"{100 * part / whole:.1f} %"


def of(part: int, whole: int, things: str) -> str:
    """Return, as `3 of 1,000 kernels (0.3 %)`, how many of some things."""
    return f"{part:,} of {whole:,} {things} ({share(part, whole)})"


def named(trace: Trace, table: str, where: pl.Expr) -> str:
    """Return, as `rank 0, 'name' at ts 12`, the first row of a table that fulfils a condition.

    The result is empty where none does; it ends at the name where the row has no time.
    """
    columns = TABLES[table].schema.names
    label = next((column for column in _LABELS if column in columns), "ts")
    rows = trace.scan(table).filter(where).select("rank", "ts", label=pl.col(label).cast(pl.String))
    for rank, ts, text in rows.bottom_k(1, by=["ts", "rank"]).collect(engine="streaming").rows():
        moment = "" if ts is None else f" at ts {ts}"
        return f"rank {rank or 0}, '{shorten(text or '')}'{moment}"
    return ""
