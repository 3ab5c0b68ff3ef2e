"""Names of processes and threads, and numbers of processes that are unique in a file."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pasta.trace import Trace

_RENUMBERED = 10_000_000
_LINK_BITS = np.uint64(40)
_TABLES = ("process", "span", "call", "kernel", "copy", "sync", "memory", "metric", "sample")

Process = tuple[int, int]
"""Rank and pid."""


def process_numbers(trace: Trace) -> dict[Process, int]:
    """Return a number for each process: its pid, or another where ranks have one pid in common."""
    tables = [table for table in _TABLES if trace.has(table)]
    if not tables:
        return {}
    process = pl.col("rank", "pid").fill_null(0)
    keys = pl.concat([trace.scan(table).select(process).unique() for table in tables])
    rows = keys.unique().sort("rank", "pid").collect(engine="streaming").rows()
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
        (rank or 0, pid or 0): f"rank {rank} {command or ''}".strip() if several else command or ""
        for rank, pid, command in rows
    }


def thread_texts(trace: Trace) -> dict[tuple[int, int, int], str]:
    """Return the names of threads by rank, pid and tid."""
    if not trace.has("thread"):
        return {}
    rows = trace.scan("thread").select("rank", "pid", "tid", "name").collect().rows()
    return {(rank or 0, pid or 0, tid or 0): name for rank, pid, tid, name in rows if name}


def flow_numbers(links: NDArray[np.uint64], places: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return numbers of flows that differ between processes; those of the first are the ids.

    Args:
        links: ids of calls or operators, unique in their process.
        places: the place of each process among all.
    """
    return links + (places.astype(np.uint64) << _LINK_BITS)
