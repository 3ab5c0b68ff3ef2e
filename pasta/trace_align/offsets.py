"""How far the clocks of ranks are apart, told by the collectives in which they meet.

A collective ends at nearly the same moment on all of its ranks. So the median, over all meetings of
two ranks, of how much later it ends on the one is what its clock is ahead; how the single meetings
differ from that median, the residual, is how well it is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

Integers = NDArray[np.int64]

FEWEST_MEETINGS = 3
"""Of two ranks, to compare their clocks by."""

MOST_IMPOSSIBLE = 0.1
"""Share of meetings that may end on one rank before they begin on the other."""

END_SKEW = 10_000
"""By how many ns the ends of one collective differ on clocks that agree: ranks leave its last
exchange one after the other (4 us between the eight GPUs of one machine)."""

_FEWEST_FOR_DRIFT = 30
_CLEAR_DRIFT = 4
"""Times the scatter about it, from which a drift is no chance."""


@dataclass(frozen=True)
class Offset:
    """What is known of the clock of a rank; times in ns.

    Attributes:
        rank: whose clock it is.
        offset: how much it is ahead of the reference's.
        compared_with: the rank with which it was compared; its own, of the reference.
        meetings: collectives that they have in common.
        residual: median deviation of single meetings, summed over the ranks in between.
        residual_p95: deviation that 95 % of meetings keep to, summed likewise.
        residual_max: largest deviation, summed likewise.
        drift: by how much `offset` grows from the first to the last third of the meetings; `None`:
            not clearly.
        drift_ppm: the same in relation to the time in between, in millionths.
    """

    rank: int
    offset: int
    compared_with: int
    meetings: int = 0
    residual: int = 0
    residual_p95: int = 0
    residual_max: int = 0
    drift: int | None = None
    drift_ppm: float | None = None

    @property
    def shift(self) -> int:
        """What to add to the rank's times: nothing where the offset is within the residual."""
        return 0 if abs(self.offset) <= max(self.residual_p95, END_SKEW) else -self.offset


@dataclass(frozen=True)
class Offsets:
    """The clocks of ranks.

    Attributes:
        known: of each rank that can be compared with the reference, which is the first.
        unknown: of each other rank, why it cannot.
    """

    known: dict[int, Offset]
    unknown: dict[int, str]


def offsets_of(meetings: Mapping[int, pl.DataFrame], ranks: list[int]) -> Offsets:
    """Compare the clocks of `ranks`, through others where two have no meetings in common.

    Args:
        meetings: of each rank, as `pasta.trace_align.meetings` gives them.
        ranks: those to compare; the first is the reference.
    """
    if not ranks:
        return Offsets({}, {})
    known = {ranks[0]: Offset(ranks[0], 0, ranks[0])}
    unknown = dict.fromkeys(ranks[1:], "it has no collective that ends at once on all ranks")
    frontier = [ranks[0]]
    while frontier and unknown:
        reached = []
        for rank in list(unknown):
            found = [_compared(meetings, known[other], rank) for other in frontier]
            offsets = [one for one in found if isinstance(one, Offset)]
            if offsets:
                known[rank] = min(offsets, key=lambda one: (one.residual, -one.meetings))
                del unknown[rank]
                reached.append(rank)
            elif reasons := [one for one in found if isinstance(one, str) and one]:
                unknown[rank] = reasons[0]
        frontier = reached
    return Offsets(dict(sorted(known.items())), unknown)


def _compared(meetings: Mapping[int, pl.DataFrame], other: Offset, rank: int) -> Offset | str:
    """Return the offset of a rank, or why it cannot be told; empty: it has no meetings at all."""
    ours, theirs = meetings.get(other.rank), meetings.get(rank)
    if ours is None or theirs is None or not theirs.height:
        return ""
    differing = _differing(ours, theirs)
    both = ours.join(theirs, on=["communicator", "meeting", "operation"], suffix="_theirs")
    both = both.join(differing, on="communicator", how="anti").sort("end", "meeting")
    if both.height < FEWEST_MEETINGS:
        return _too_few(both.height, differing, other.rank)
    later = _numbers(both, "end_theirs") - _numbers(both, "end")
    offset = _median(later)
    if refused := _implausible(both, offset, other.rank):
        return refused
    deviations = np.sort(np.abs(later - offset))
    drift, drift_ppm = _drift(_numbers(both, "end"), later - offset)
    return Offset(
        rank,
        other.offset + offset,
        other.rank,
        both.height,
        other.residual + _median(deviations),
        other.residual_p95 + int(deviations[-(-len(deviations) * 19 // 20) - 1]),
        other.residual_max + int(deviations[-1]),
        drift,
        drift_ppm,
    )


def _differing(ours: pl.DataFrame, theirs: pl.DataFrame) -> pl.DataFrame:
    """Return communicators whose counted sequences differ in number, so that they do not match."""
    counts = [
        side.group_by("communicator").agg(pl.col("rows").first(), pl.col("counted").any())
        for side in (ours, theirs)
    ]
    both = counts[0].join(counts[1], on="communicator", suffix="_theirs")
    return both.filter(
        pl.col("counted") | pl.col("counted_theirs"), pl.col("rows") != pl.col("rows_theirs")
    )


def _too_few(meetings: int, differing: pl.DataFrame, other: int) -> str:
    if differing.height:
        ours, theirs = differing.select("rows", "rows_theirs").row(0)
        return (
            f"its collectives are only counted, and it has {theirs:,} where rank {other} has"
            f" {ours:,}, so that they cannot be told apart"
        )
    return (
        f"it has {meetings or 'no'} collective{'s' * (meetings != 1)} in common with rank {other};"
        f" {FEWEST_MEETINGS} are needed"
    )


def _implausible(both: pl.DataFrame, offset: int, other: int) -> str:
    """Say why an offset cannot be right; empty: it can.

    Where the residual is more than collectives last, half of them cannot have been at one time.
    """
    begin, end = _numbers(both, "begin"), _numbers(both, "end")
    begin_theirs = _numbers(both, "begin_theirs") - offset
    end_theirs = _numbers(both, "end_theirs") - offset
    impossible = int(((begin_theirs > end) | (begin > end_theirs)).sum())
    if impossible > MOST_IMPOSSIBLE * both.height:
        return (
            f"{impossible:,} of its {both.height:,} collectives in common with rank {other} would end"
            " on one of the two before they begin on the other, so that they are not the same"
        )
    return ""


def _drift(times: Integers, deviations: Integers) -> tuple[int | None, float | None]:
    """Return by how much deviations grow over `times`, and in millionths; `None`: not clearly."""
    third = len(times) // 3
    if len(times) < _FEWEST_FOR_DRIFT:
        return None, None
    early, late = deviations[:third], deviations[-third:]
    growth = _median(late) - _median(early)
    scatter = max(_median(np.abs(part - _median(part))) for part in (early, late))
    lapse = _median(times[-third:]) - _median(times[:third])
    if abs(growth) <= _CLEAR_DRIFT * scatter or lapse <= 0:
        return None, None
    return growth, round(growth / lapse * 1e6, 3)


def _numbers(rows: pl.DataFrame, column: str) -> Integers:
    return rows[column].to_numpy()


def _median(values: Integers) -> int:
    """Return the median, exact however large the values are."""
    ordered = np.sort(values)
    low, high = int(ordered[(len(ordered) - 1) // 2]), int(ordered[len(ordered) // 2])
    return (low + high) // 2
