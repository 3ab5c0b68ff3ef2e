"""When ranks have events: times far from all others, ranks that fall silent, parts without data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from pasta.schema import TABLES
from pasta.tools.checks.moments import TIMELINE, Moments, merged, moments_of
from pasta.tools.checks.words import named, of, share, time
from pasta.trace import Trace

LEAST_SHARE = 0.2
"""Share of the run that is worth a sentence when a rank has no event in it."""

FAR_ROWS, FAR_TIMES, FAR_TIME = 0.01, 9, 60_000_000_000
"""Events are far from the others when they are at most 1 % of all, and nothing is in between for nine
times as long as the others last, and a minute."""

_MOST_CUTS = 8

_LATEST = (1 << 62) - 1
"""Times beyond it, 146 years from zero, are no times, and their differences would overflow."""


def activity_warnings(trace: Trace, counts: pl.DataFrame) -> list[str]:
    """Say which events are far from the rest, and which ranks lack data in between or at the ends.

    Args:
        trace: the trace.
        counts: as of `trace_warnings`.
    """
    timed = counts.drop_nulls("start_ts")
    if not timed.height:
        return []
    low, high = _extremes(timed)
    ranks = moments_of(trace, low, high)
    said: list[str] = []
    while ranks and len(said) < _MOST_CUTS and (far := _far(trace, ranks)) is not None:
        sentence, (low, high) = far
        said.append(sentence)
        ranks = moments_of(trace, low, high)
    return [*said, *_silent_ends(ranks), *_gaps(ranks)] if ranks else said


def _extremes(counts: pl.DataFrame) -> tuple[int, int]:
    first, last = counts.select(pl.col("start_ts").min(), pl.col("end_ts").max()).row(0)
    return max(first, -_LATEST), min(last, _LATEST)


def _far(trace: Trace, ranks: Mapping[int, Moments]) -> tuple[str, tuple[int, int]] | None:
    """Return a sentence on the events that are far from the rest, and the extent of the rest."""
    every = merged(list(ranks.values()))
    (low, high), (start, end) = every.extent, every.longest_gap()
    if end - start < max(FAR_TIMES * every.core(FAR_ROWS), FAR_TIME):
        return None
    before = int(every.begun[every.first <= start].sum())
    after = int(every.ended[every.last >= end].sum())
    if min(before, after) > FAR_ROWS * every.rows:
        return None
    if after <= before:
        number, side, kept = after, "after", (low, start)
    else:
        number, side, kept = before, "before", (end, high)
    return (
        (
            f"{of(number, every.rows, 'events')} lie {time(end - start)} {side} all others, which last"
            f" {time(kept[1] - kept[0])}: their times are hardly right (first:"
            f" {_first(trace, side, start, end)})"
        ),
        kept,
    )


def _first(trace: Trace, side: str, start: int, end: int) -> str:
    """Return the first event beyond a gap."""
    for table in TIMELINE:
        if trace.has(table):
            lasting = pl.col("dur").fill_null(0) if "dur" in TABLES[table].schema.names else 0
            beyond = pl.col("ts") + lasting >= end if side == "after" else pl.col("ts") <= start
            if found := named(trace, table, beyond):
                return f"{table} of {found}"
    return "none has a name"


def _silent_ends(ranks: Mapping[int, Moments]) -> Iterator[str]:
    """Yield what is missing of ranks that begin late or end early, compared with the others."""
    low, high = merged(list(ranks.values())).extent
    late = {rank: one.extent[0] - low for rank, one in ranks.items()}
    early = {rank: high - one.extent[1] for rank, one in ranks.items()}
    for missing, what in ((late, "begin late"), (early, "end early")):
        short = {rank: lack for rank, lack in missing.items() if lack >= LEAST_SHARE * (high - low)}
        if short and high > low:
            rank = max(short, key=short.__getitem__)
            yield (
                f"{of(len(short), len(ranks), 'ranks')} {what}: rank {rank} has no event in the"
                f" {'first' if missing is late else 'last'} {time(short[rank])}"
                f" ({share(short[rank], high - low)}) of the run"
            )


def _gaps(ranks: Mapping[int, Moments]) -> Iterator[str]:
    """Yield the longest time in which a rank that has events before and after has none."""
    low, high = merged(list(ranks.values())).extent
    gaps = {rank: one.longest_gap() for rank, one in ranks.items()}
    long = {
        rank: end - start
        for rank, (start, end) in gaps.items()
        if end - start >= LEAST_SHARE * (high - low) > 0
    }
    if long:
        rank = max(long, key=long.__getitem__)
        of_ranks = f"{of(len(long), len(ranks), 'ranks')} have" if len(ranks) > 1 else "there are"
        yield (
            f"{of_ranks} parts of the run without any event, the longest {time(long[rank])}"
            f" ({share(long[rank], high - low)}) on rank {rank} from ts {gaps[rank][0]} on"
        )
