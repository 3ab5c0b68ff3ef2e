"""Finding what the memory run's processes are in the timeline run's terms."""

from __future__ import annotations

import polars as pl

from pasta.schema import TABLES
from pasta.trace import Trace
from pasta.trace_join.matching import PROCESS, Matching, Process
from pasta.trace_join.renaming import MOVED, Renaming
from pasta.trace_join.times import TimeMap

_NUMBERED = ("launch_id", "correlation", "context", *MOVED)


class Names:
    """The memory run's processes in the timeline run's terms.

    Args:
        matching: what the runs have in common.
        timeline: the timeline run.
        memory: the memory run.

    Attributes:
        shift: ns from a time of the memory run to one of the timeline run, by their beginnings.
        matched: matched launches: `rank`, `pid` and `memory_pid`, `ts` and `memory_ts`,
            `launch_id` and `memory_launch_id`, `correlation`.
        found: process of the memory run -> what becomes of it.
    """

    def __init__(self, matching: Matching, timeline: Trace, memory: Trace) -> None:
        self.shift = _begin(timeline) - _begin(memory)
        self.matched = _matched(matching)
        self.found: dict[Process, Renaming] = {}
        self._matching = matching
        self._largest = _largest_ids(timeline)
        self._threads = _threads(timeline)
        self._taken = {*self._largest, *self._threads}

    def of(self, process: Process) -> Renaming:
        """Return what becomes of a process of the memory run."""
        if process not in self.found:
            self.found[process] = self._renaming(process)
        return self.found[process]

    def _renaming(self, process: Process) -> Renaming:
        rank, memory_pid = process
        pid = self._matching.processes.get(process)
        known = pid is not None
        if pid is None:
            pid = self._free_pid(rank, memory_pid)
        largest = self._largest.get((rank, pid), {})
        matched = self.matched.filter(pl.col("rank") == rank, pl.col("memory_pid") == memory_pid)
        launches = self._matching.memory.filter(pl.col("rank") == rank, pl.col("pid") == memory_pid)
        theirs, ours = matched["memory_ts"].to_numpy(), matched["ts"].to_numpy()
        return Renaming(
            rank=rank,
            pid=pid,
            known=known,
            times=TimeMap(theirs, ours, self.shift),
            launches=_numbered(launches, matched, largest),
            streams=self._streams(launches, pid, largest),
            largest=largest,
            threads={memory_pid: pid},
            taken={pid, *self._threads.get((rank, pid), ())},
        )

    def _free_pid(self, rank: int, pid: int) -> int:
        """Return a pid that no process of the timeline run has, the process's own if possible."""
        taken = {there for r, there in self._taken if r == rank}
        free = pid if pid not in taken else max(taken) + 1
        self._taken.add((rank, free))
        return free

    def _streams(self, launches: pl.DataFrame, pid: int, largest: dict[str, int]) -> pl.DataFrame:
        """Return all streams of a process as they are there; unpaired ones get new contexts."""
        paired = self._matching.streams.filter(pl.col("pid") == pid).select(
            "rank", "device", "memory_context", "memory_stream", "context", "stream"
        )
        keys = ["rank", "device", "memory_context", "memory_stream"]
        used = launches.select("rank", "device", memory_context="context", memory_stream="stream")
        own_context = largest.get("context", 0) + pl.col("memory_context").rank("dense")
        return (
            used.unique(maintain_order=True)
            .with_columns(own_context=own_context.cast(pl.Int64))
            .join(paired, on=keys, how="left", maintain_order="left")
            .select(
                *keys[1:],
                context=pl.coalesce("context", "own_context"),
                stream=pl.coalesce("stream", "memory_stream"),
            )
        )


def _matched(matching: Matching) -> pl.DataFrame:
    ours = matching.timeline[matching.rows].select(*PROCESS, "ts", "launch_id", "correlation")
    theirs = matching.memory[matching.memory_rows].select(
        memory_pid="pid", memory_ts="ts", memory_launch_id="launch_id"
    )
    return ours.hstack(theirs)


def _numbered(
    launches: pl.DataFrame, matched: pl.DataFrame, largest: dict[str, int]
) -> pl.DataFrame:
    """Return the memory run's launches of a process with their ids there.

    Where several kernels have one correlation there, as those of a graph, the first launch has it.
    """
    ids = matched.select("memory_launch_id", "launch_id", "correlation", matched=pl.lit(value=True))
    found = launches.select(memory_launch_id="launch_id").sort("memory_launch_id")
    found = found.join(ids, on="memory_launch_id", how="left", maintain_order="left")
    lacking = pl.col("launch_id").is_null()
    first = pl.when(pl.col("correlation").is_first_distinct()).then("correlation").otherwise(0)
    number = lacking.cum_sum().cast(pl.UInt64)
    return found.with_columns(
        pl.col("matched").fill_null(value=False),
        launch_id=pl.coalesce("launch_id", number + largest.get("launch_id", 0)),
        correlation=pl.when(lacking).then(number + largest.get("correlation", 0)).otherwise(first),
    )


def _largest_ids(trace: Trace) -> dict[Process, dict[str, int]]:
    """Return the largest id of each kind in each process."""
    found: dict[Process, dict[str, int]] = {}
    for table in trace.tables():
        names = [name for name in _NUMBERED if name in TABLES[table].schema.names]
        largest = trace.scan(table).group_by(PROCESS).agg(pl.col(names).max().fill_null(0))
        for row in largest.collect().iter_rows(named=True):
            process = found.setdefault((row["rank"], row["pid"]), {})
            for name in names:
                process[name] = max(process.get(name, 0), row[name])
    return found


def _threads(trace: Trace) -> dict[Process, list[int]]:
    if not trace.files("thread"):
        return {}
    threads = trace.scan("thread").group_by(PROCESS).agg("tid").collect()
    return {(rank, pid): tids for rank, pid, tids in threads.rows()}


def _begin(trace: Trace) -> int:
    """Return the start of a run: of its first process or, where none is known, its first launch."""
    for table, column in (("process", "started"), ("kernel", "ts")):
        if trace.files(table):
            first = trace.scan(table).select(pl.col(column).min()).collect().item()
            if first is not None:
                return int(first)
    return 0
