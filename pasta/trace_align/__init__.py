"""Bringing the clocks of many ranks together, by the collectives that they take part in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from pasta.errors import TraceError
from pasta.trace import Trace
from pasta.trace_align.meetings import meetings
from pasta.trace_align.offsets import Offset, Offsets, offsets_of
from pasta.trace_combine import Combined, shift_ranks

MOST_NAMED = 3
"""Ranks named in an error; the rest is counted."""


@dataclass(frozen=True)
class Aligned:
    """What came of aligning a trace.

    Attributes:
        trace: the new trace, with its ranks and rows.
        offsets: of every rank, ascending; the first is the reference.
    """

    trace: Combined
    offsets: list[Offset]

    @property
    def sentence(self) -> str:
        """How many clocks were off, and by how much."""
        shifted = [one for one in self.offsets if one.shift]
        first = self.offsets[0].rank
        if not shifted:
            return f"the clocks of all {len(self.offsets)} ranks agree with that of rank {first}"
        worst = max(shifted, key=lambda one: abs(one.offset))
        drifting = [one for one in self.offsets if one.drift is not None]
        drifts = (
            f"; {len(drifting)} drift as well, which is not corrected, by up to"
            f" {max(abs(one.drift or 0) for one in drifting):,} ns"
            if drifting
            else ""
        )
        return (
            f"{len(shifted)} of {len(self.offsets)} ranks were shifted to the clock of rank {first},"
            f" by up to {abs(worst.offset):,} ns (rank {worst.rank}, give or take"
            f" {worst.residual_p95:,} ns){drifts}"
        )

    @property
    def table(self) -> pl.DataFrame:
        """One row for each rank; times in ns."""
        return pl.DataFrame([_row(one) for one in self.offsets], schema=_ROW)


def clock_offsets(trace: Trace) -> Offsets:
    """Return what the collectives of a trace tell of the clocks of its ranks."""
    return offsets_of(meetings(trace), _ranks(trace))


def align_trace(trace: Trace, out: Path) -> Aligned:
    """Write a trace in which all ranks have the clock of the first.

    Args:
        trace: a trace of two ranks or more.
        out: folder of the new trace; absent or empty.

    Raises:
        TraceError: the clock of a rank cannot be told, or `out` holds something.
    """
    ranks = _ranks(trace)
    if len(ranks) < 2:
        raise TraceError(f"{trace.path}: has {len(ranks)} rank, so that there is nothing to align")
    if not trace.has("collective"):
        raise TraceError(
            f"{trace.path}: has no table 'collective', and clocks are told by what ranks do together"
        )
    offsets = offsets_of(meetings(trace), ranks)
    if offsets.unknown:
        raise TraceError(_refused(trace, offsets))
    found = list(offsets.known.values())
    aligned = {"reference": found[0].rank, "ranks": [_row(one) for one in found]}
    shifts = {one.rank: one.shift for one in found}
    return Aligned(shift_ranks(trace, out, shifts, {"aligned": aligned}), found)


def _ranks(trace: Trace) -> list[int]:
    """Return the ranks that have a folder, a process, a kernel or a collective, ascending."""
    found: set[int] = set(trace.ranks)
    for table in ("process", "kernel", "collective"):
        if trace.has(table):
            ranks = trace.scan(table).select(pl.col("rank").unique())
            found.update(ranks.collect(engine="streaming")["rank"].drop_nulls())
    return sorted(found)


def _refused(trace: Trace, offsets: Offsets) -> str:
    reasons = [f"rank {rank}: {why}" for rank, why in offsets.unknown.items()]
    more = f"; and {len(reasons) - MOST_NAMED} more" if len(reasons) > MOST_NAMED else ""
    return (
        f"{trace.path}: the clocks of {len(reasons)} of"
        f" {len(reasons) + len(offsets.known)} ranks cannot be told:"
        f" {'; '.join(reasons[:MOST_NAMED])}{more}"
    )


def _row(one: Offset) -> dict[str, Any]:
    return {
        "rank": one.rank,
        "offset_ns": one.offset,
        "shift_ns": one.shift,
        "compared_with": one.compared_with,
        "meetings": one.meetings,
        "residual_ns": one.residual,
        "residual_p95_ns": one.residual_p95,
        "residual_max_ns": one.residual_max,
        "drift_ns": one.drift,
        "drift_ppm": one.drift_ppm,
    }


_ROW = {
    "rank": pl.Int32,
    "offset_ns": pl.Int64,
    "shift_ns": pl.Int64,
    "compared_with": pl.Int32,
    "meetings": pl.Int64,
    "residual_ns": pl.Int64,
    "residual_p95_ns": pl.Int64,
    "residual_max_ns": pl.Int64,
    "drift_ns": pl.Int64,
    "drift_ppm": pl.Float64,
}
