"""Joining a timeline run with a memory run of the same program, since one run cannot be both."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from pasta.errors import TraceError
from pasta.trace import Trace
from pasta.trace_join.counting import Share, losses, shares
from pasta.trace_join.matching import match
from pasta.trace_join.naming import Names
from pasta.trace_join.writing import JoinedTables
from pasta.trace_writer import TraceWriter

__all__ = ["Joined", "Share", "join_traces"]

_FILLED = ("touch", "access", "event", "metric", "memory")
_NO_CALLS = "no API calls say which span launched a kernel; record the timeline with cuda:calls"
_NO_SPANS = (
    "spans of the memory run are left out, since calls are the timeline run's; record spans in the"
    " timeline run too, as with torch:operators"
)
_OF_A_WRITER = ("schema_version", "pasta_version", "created", "state", "recorder", "spent")


@dataclass(frozen=True)
class Joined:
    """What came of joining two runs.

    Attributes:
        path: the joined trace.
        shares: matched launches by rank.
        rows: rows by table.
        notes: what the joined trace cannot tell, and what to do about it.
    """

    path: Path
    shares: list[Share]
    rows: dict[str, int]
    notes: list[str]


def join_traces(timeline: Trace, memory: Trace, out: Path) -> Joined:
    """Make a trace of a timeline run and a memory run of the same program.

    It holds all of the timeline run, and the memory run's `touch`, `access`, `event`, `metric` and
    `memory` with pids, launches, threads and times as in the timeline run. Launches that only the
    memory run has are kept as kernels without a duration. docs/joining.md says more.

    Args:
        timeline: a run with durations of kernels.
        memory: a run that says what its kernels did to memory.
        out: folder of the new trace; absent, empty, or one that the two runs lie in.

    Raises:
        TraceError: one of them is no such run, or `out` holds something else.
    """
    _check(timeline, memory)
    matching = match(timeline, memory)
    matched = shares(matching)
    runs = (timeline.path, memory.path)
    writer = TraceWriter(out, _info(timeline, memory, matched), beside=runs)
    with writer.removed_on_failure():
        names = Names(matching, timeline, memory)
        tables = JoinedTables(timeline, memory, names, out)
        tables.write()
        tables.losses.update(losses(matching, names, timeline, memory))
        tables.finish()
        writer.finish()
    joined = Trace.open(out)
    rows = {table: joined.rows(table) for table in joined.tables()}
    return Joined(out, matched, rows, _notes(timeline, memory))


def _check(timeline: Trace, memory: Trace) -> None:
    for trace, role in ((timeline, "timeline"), (memory, "memory")):
        if not trace.files("kernel"):
            raise TraceError(f"{trace.path}: has no kernels, so it is no {role} run to join")
    timed = timeline.scan("kernel").select(pl.col("dur").is_not_null().any())
    if not timed.collect().item():
        raise TraceError(
            f"{timeline.path}: its kernels have no durations; name the timeline run first, the"
            " memory run second"
        )
    if not any(memory.files(table) for table in _FILLED):
        raise TraceError(
            f"{memory.path}: has none of the tables {', '.join(_FILLED)}; record the memory run"
            " with: pasta collect --with cuda.memory"
        )


def _notes(timeline: Trace, memory: Trace) -> list[str]:
    has_spans, has_calls = (bool(timeline.files(table)) for table in ("span", "call"))
    if has_spans and not has_calls:
        return [_NO_CALLS]
    if has_calls and not has_spans and memory.files("span"):
        return [_NO_SPANS]
    return []


def _info(timeline: Trace, memory: Trace, matched: list[Share]) -> dict[str, Any]:
    """Return what `trace.json` says: as the timeline run's, and both as they were."""
    own = {name: value for name, value in timeline.info.items() if name not in _OF_A_WRITER}
    collectors = [*timeline.info.get("collectors", []), *memory.info.get("collectors", [])]
    launches = [
        {
            **asdict(share),
            "timeline_share": share.timeline_share,
            "memory_share": share.memory_share,
        }
        for share in matched
    ]
    joined = {"launches": launches, "timeline": timeline.info, "memory": memory.info}
    ranks = sorted({*timeline.info.get("ranks", []), *memory.info.get("ranks", [])})
    return {**own, "ranks": ranks, "collectors": collectors, "joined": joined}
