"""What each worker of a run did when, as a trace of that run, for the tool `scaling`.

A worker is a rank: its reading, computing, combining and fetching of what other workers have are spans
of the thread on which they happened. The caller is the last rank; it holds the run as a whole.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Collection, Generator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from polars.io.plugins import register_io_source

from pasta.trace_writer import TraceWriter

_TASKS = {
    **dict.fromkeys(["run_shard", "run_for_rows", "run_for_states", "part"], "compute"),
    **dict.fromkeys(["combine_states", "outline_states", "cut_states", "run_cut"], "combine"),
}
"""A task's function -> what it does."""

_ACTIONS = {"transfer": "transfer", "disk-read": "disk", "disk-write": "disk"}
"""Dask's name of what a worker does for a task, beside running it -> what that is."""


class Span(NamedTuple):
    """What a thread of a worker, by its address, did from `begin` to `end`, ns."""

    worker: str
    thread: int
    name: str
    begin: int
    end: int


def timed_reading(rows: pl.LazyFrame, topic: str) -> pl.LazyFrame:
    """Return a scan that is read in one go when it is asked for, and logs on a worker when that was.

    Columns and rows that the plan around it leaves out are not read.
    """
    from distributed import get_worker
    from distributed.metrics import time as now

    worker, thread, schema = get_worker(), threading.get_ident(), rows.collect_schema()

    def read(
        columns: list[str] | None, where: pl.Expr | None, most: int | None, _batch_rows: int | None
    ) -> Generator[pl.DataFrame]:
        begin = now()
        wanted = rows if where is None else rows.filter(where)
        if columns is not None:  # of no column there would be no rows to count
            wanted = wanted.select(columns or schema.names()[:1])
        found = (wanted if most is None else wanted.head(most)).collect(engine="streaming")
        times = (moment + worker.scheduler_delay for moment in (begin, now()))
        worker.log_event(topic, Span(worker.address, thread, "read", *map(_ns, times)))
        yield found

    return register_io_source(read, schema=schema, is_pure=True)


class Timings:
    """The times of one run that begins now.

    Args:
        client: the connection to the scheduler.
        folder: of the trace, which does not exist yet or is empty.
        tool: the name of what runs.

    Attributes:
        topic: under which the run's workers log what they read.

    Raises:
        TraceError: the folder holds something.
    """

    def __init__(self, client: Any, folder: Path, tool: str) -> None:
        self.topic = f"pasta-{uuid.uuid4().hex}"
        self._client, self._tool = client, tool
        self._writer = TraceWriter(folder, {"command": ["pasta", "run", tool]})
        self._begin = self._shards_done = time.time_ns()
        self._spans: list[Span] = []
        self._threads: Mapping[str, int] = {}
        client.get_task_stream(count=0)

    def take_tasks(self, keys: Collection[str]) -> None:
        """Take what the scheduler knows of the run's tasks, all of which are done."""
        self._shards_done = time.time_ns()
        self._threads = self._client.nthreads()
        tasks = self._client.get_task_stream()
        self._spans = [span for task in tasks if task["key"] in keys for span in _spans(task)]
        self._spans += [Span(*logged) for _, logged in self._client.get_events(self.topic)]

    def write(self) -> None:
        """Write the run, which ends now, as a trace."""
        end = time.time_ns()
        workers = list(dict.fromkeys([*self._threads, *(span.worker for span in self._spans)]))
        recording = {"started": self._begin, "ended": end, "world_size": len(workers) + 1}
        for rank, worker in enumerate(workers):
            spans = [span for span in self._spans if span.worker == worker]
            threads = list(dict.fromkeys(span.thread for span in spans))
            slots = max(self._threads.get(worker, 1), len(threads))
            tables = {
                "process": [{"command": worker, **recording}],
                "thread": [{"tid": tid, "name": "worker"} for tid in range(slots)],
                "span": [_row(span, threads.index(span.thread)) for span in spans],
            }
            self._write_rank(rank, tables)
        alone = Span("", 0, "caller", self._shards_done, end)
        whole = Span("", 0, self._tool, self._begin, end)
        tables = {
            "process": [{"command": "the caller", **recording}],
            "thread": [{"tid": 0, "name": "caller"}],
            "span": [_row(whole, 0) | {"level": "run"}, _row(alone, 0)],
        }
        self._write_rank(len(workers), tables)
        self._writer.finish()

    def _write_rank(self, rank: int, tables: Mapping[str, list[dict[str, Any]]]) -> None:
        part = self._writer.part(rank)
        for table, rows in tables.items():
            found = pl.DataFrame([{"rank": rank, "pid": rank, **row} for row in rows])
            part.append(table, found.to_arrow(compat_level=pl.CompatLevel.oldest()))
        part.finish()


def _row(span: Span, tid: int) -> dict[str, Any]:
    """Return a row of the table `span`; clocks of machines may differ by less than a span."""
    dur = max(span.end - span.begin, 0)
    return {"tid": tid, "level": "phase", "name": span.name, "ts": span.begin, "dur": dur}


def _spans(task: Mapping[str, Any]) -> Generator[Span]:
    """Yield what a worker did for a task."""
    does = _TASKS[str(task["key"]).rpartition("-")[0].partition("-")[0]]
    for part in task["startstops"]:
        name = _ACTIONS.get(part["action"], does)
        yield Span(task["worker"], task["thread"], name, _ns(part["start"]), _ns(part["stop"]))


def _ns(seconds: float) -> int:
    """Return a moment of Dask's clock, which counts in floats, in ns; exact to a microsecond."""
    return round(seconds * 1e6) * 1000
