"""Ranks whose clocks disagree."""

from __future__ import annotations

from pasta.tools.checks.words import of, time
from pasta.trace import Trace
from pasta.trace_align import clock_offsets

AGREEING = 50_000
"""Clocks that are less apart, in ns, are said to agree: nothing that pasta shows is then misleading."""


def clock_warnings(trace: Trace) -> list[str]:
    """Say how far the clocks of ranks are apart, where their collectives tell that they are."""
    if not trace.has("collective"):
        return []
    found = clock_offsets(trace)
    offsets = list(found.known.values())
    ranks = len(offsets) + len(found.unknown)
    apart = [one for one in offsets if one.shift and abs(one.offset) > AGREEING]
    if not apart:
        return []
    reached = [one.offset for one in offsets]
    worst = max(apart, key=lambda one: abs(one.offset))
    ahead = "ahead of" if worst.offset > 0 else "behind"
    return [
        (
            f"the clocks of ranks differ by up to {time(max(reached) - min(reached))}"
            f" ({of(len(apart), ranks, 'ranks')}; rank {worst.rank} is {time(abs(worst.offset))}"
            f" {ahead} rank {offsets[0].rank}, give or take {time(worst.residual_p95)}): pasta trace align"
        )
    ]
