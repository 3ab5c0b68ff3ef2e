"""How much of two runs is matched, and what is not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import polars as pl

from pasta.trace import Trace
from pasta.trace_join.matching import PROCESS, Matching, Process
from pasta.trace_join.naming import Names

_ONLY_TIMELINE = (
    "launches of the timeline run that the memory run lacks: what they did to memory is not known"
)
_ONLY_MEMORY = "launches of the memory run that the timeline run lacks: kept, without a duration"
_DOUBTFUL = (
    "matched launches beside an unmatched one of the same name and size: which of them both runs"
    " have cannot be told, so they are matched in order"
)
_OUT_OF_ORDER = (
    "matched launches that ran in another order than they were launched: times of memory around"
    " them follow those of other launches"
)
_NO_ID = "launches of the {} run without a time or an id of their own: not matched"
_ONLY_PROCESS = "processes that only the memory run has: kept, at times counted from its start"


@dataclass(frozen=True)
class Share:
    """How many launches of one rank are matched.

    Attributes:
        rank: the rank.
        timeline_launches: launches of the timeline run.
        memory_launches: launches of the memory run.
        matched: launches that both have.
        doubtful: of those, launches that could as well be a neighbour of the same name and size.
    """

    rank: int
    timeline_launches: int
    memory_launches: int
    matched: int
    doubtful: int

    def __str__(self) -> str:
        text = (
            f"rank {self.rank}: {self.matched:,} launches are matched, of {self.timeline_launches:,}"
            f" of the timeline run ({self.timeline_share:.1%}) and {self.memory_launches:,} of the"
            f" memory run ({self.memory_share:.1%})"
        )
        if not self.doubtful:
            return text
        return f"{text}; {self.doubtful:,} of them could as well be an alike one beside"

    @property
    def timeline_share(self) -> float:
        """The part of the timeline run's launches that is matched."""
        return self.matched / max(self.timeline_launches, 1)

    @property
    def memory_share(self) -> float:
        """The part of the memory run's launches that is matched."""
        return self.matched / max(self.memory_launches, 1)


def shares(matching: Matching) -> list[Share]:
    """Return how many launches of each rank are matched."""
    matched = matching.timeline[matching.rows]
    ours, theirs, both = (
        dict(rows.group_by("rank").len().rows())
        for rows in (matching.timeline, matching.memory, matched)
    )
    doubtful: Counter[int] = Counter()
    for (rank, _), count in matching.doubtful.items():
        doubtful[rank] += count
    return [
        Share(rank, ours.get(rank, 0), theirs.get(rank, 0), both.get(rank, 0), doubtful[rank])
        for rank in sorted(ours.keys() | theirs.keys())
    ]


def losses(
    matching: Matching, names: Names, timeline: Trace, memory: Trace
) -> Counter[tuple[Process, str]]:
    """Return what is not matched or not certain, by process of the timeline run and reason."""
    lost: Counter[tuple[Process, str]] = Counter()
    ours, matched = _by_process(matching.timeline), _by_process(names.matched)
    for process, count in ours.items():
        lost[process, _ONLY_TIMELINE] += count - matched[process]
    for process, count in _by_process(timeline.scan("kernel")).items():
        lost[process, _NO_ID.format("timeline")] += count - ours[process]
    for process, count in matching.doubtful.items():
        lost[process, _DOUBTFUL] += count
    theirs, kernels = _by_process(matching.memory), _by_process(memory.scan("kernel"))
    for process, renaming in names.found.items():
        there = renaming.rank, renaming.pid
        lost[there, _ONLY_MEMORY] += theirs[process] - matched[there]
        lost[there, _NO_ID.format("memory")] += kernels[process] - theirs[process]
        lost[there, _OUT_OF_ORDER] += renaming.times.out_of_order
        lost[there, _ONLY_PROCESS] += not renaming.known
    return +lost


def _by_process(launches: pl.DataFrame | pl.LazyFrame) -> Counter[Process]:
    counted = launches.lazy().group_by(PROCESS).len().collect()
    return Counter({(rank, pid): count for rank, pid, count in counted.rows()})
