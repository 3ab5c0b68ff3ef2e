"""Times that are coarser, shorter or longer than times of events are."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pasta.tools.checks.words import of
from pasta.trace import Trace
from pasta.trace_join.reading import batches

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
    rows = zero = 0
    units = list(_UNITS)
    for table in filter(trace.has, _TABLES):
        for batch in batches(trace.files(table), table, ["ts", "dur"]):
            units = [unit for unit in units if _whole(batch, unit[0])]
            if not units:
                return
            rows += batch.height
            zero += int((batch["dur"] == 0).sum())
    if rows >= FEWEST:
        shorter = f"; {of(zero, rows, 'events')} are so short that they last 0" if zero else ""
        yield f"all times are whole {units[0][1]}, which is how exact durations are{shorter}"


def _whole(batch: pl.DataFrame, unit: int) -> bool:
    rest = (pl.col("ts", "dur") % unit).sum()
    return not any(batch.select(rest).row(0))


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
