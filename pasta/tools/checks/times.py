"""Times that are coarser, shorter or longer than times of events are."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pasta.tools.checks.words import of
from pasta.trace import Trace

FEWEST = 1000
"""Events from which on it is no chance that all times are whole."""

FEWEST_KERNELS = 100
SHORTEST_KERNEL = 100
LONGEST_KERNEL = 1_000_000_000
"""Kernels take some microseconds; where most take less than the one or more than the other, in ns,
their times are read in a wrong unit."""

_TABLES = ("kernel", "call", "span", "copy")
_UNITS = ((1_000_000, "milliseconds"), (1_000, "microseconds"))


def time_warnings(trace: Trace) -> list[str]:
    """Say whether all times are whole microseconds, and whether kernels are of a wrong scale."""
    return [*_coarse(trace), *_scale(trace)]


def _coarse(trace: Trace) -> Iterator[str]:
    tables = [trace.scan(table) for table in _TABLES if trace.has(table)]
    for unit, name in _UNITS if tables else ():
        if not all(_fractions(table.head(FEWEST), unit)[2] == 0 for table in tables):
            continue
        rows, zero, fractions = (
            sum(column) for column in zip(*(_fractions(t, unit) for t in tables), strict=True)
        )
        if rows >= FEWEST and not fractions:
            shorter = f"; {of(zero, rows, 'events')} are so short that they last 0" if zero else ""
            yield f"all times are whole {name}, which is how exact durations are{shorter}"
            return


def _fractions(rows: pl.LazyFrame, unit: int) -> tuple[int, int, int]:
    """Return how many rows there are, last 0, and have times that are no multiple of `unit`."""
    whole = (pl.col("ts") % unit == 0) & (pl.col("dur").fill_null(0) % unit == 0)
    counted = rows.select(
        pl.len(), (pl.col("dur") == 0).sum().alias("zero"), (~whole).sum().alias("no")
    )
    rows_, zero, fractions = counted.collect(engine="streaming").row(0)
    return rows_, zero, fractions


def _scale(trace: Trace) -> Iterator[str]:
    if not trace.has("kernel"):
        return
    counted = trace.scan("kernel").select(
        kernels=pl.col("dur").count(),
        short=pl.col("dur").is_between(1, SHORTEST_KERNEL - 1).sum(),
        long=(pl.col("dur") >= LONGEST_KERNEL).sum(),
    )
    kernels, short, long = counted.collect(engine="streaming").row(0)
    if kernels < FEWEST_KERNELS:
        return
    if 2 * short > kernels:
        yield (
            f"{of(short, kernels, 'kernels')} take less than {SHORTEST_KERNEL} ns, which none does:"
            " their times may be microseconds that were taken for nanoseconds"
        )
    if 2 * long > kernels:
        yield (
            f"{of(long, kernels, 'kernels')} take a second or more: their times may be nanoseconds"
            " that were taken for microseconds"
        )
