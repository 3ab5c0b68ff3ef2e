"""Names of processes and threads, and numbers of processes that are unique in a file."""

from __future__ import annotations

import polars as pl

from pasta.trace import Trace

_RENUMBERED = 10_000_000

Process = tuple[int, int]
"""Rank and pid."""


def process_numbers(trace: Trace) -> dict[Process, int]:
    """Return a number for each process: its pid, or another where ranks have one pid in common."""
    tables = [t for t in ("process", "span", "call", "kernel", "copy", "memory", "metric") if trace.has(t)]  # fmt: skip
    if not tables:
        return {}
    keys = pl.concat([trace.scan(table).select("rank", "pid").unique() for table in tables])
    rows = keys.unique().fill_null(0).sort("rank", "pid").collect().rows()
    taken: set[int] = set()
    found = {}
    for position, (rank, pid) in enumerate(rows):
        found[rank, pid] = pid if pid not in taken else _RENUMBERED + position
        taken.add(found[rank, pid])
    return found


def process_texts(trace: Trace) -> dict[Process, str]:
    """Return the command of each process, with its rank where there are several."""
    if not trace.has("process"):
        return {}
    rows = trace.scan("process").select("rank", "pid", "command").collect().rows()
    several = len({rank for rank, _, _ in rows}) > 1
    return {
        (rank, pid): f"rank {rank} {command or ''}".strip() if several else command or ""
        for rank, pid, command in rows
    }


def thread_texts(trace: Trace) -> dict[tuple[int, int, int], str]:
    """Return the names of threads by rank, pid and tid."""
    if not trace.has("thread"):
        return {}
    rows = trace.scan("thread").select("rank", "pid", "tid", "name").collect().rows()
    return {(rank, pid, tid): name for rank, pid, tid, name in rows if name}
