"""The memory run's processes, launches, threads and times in the timeline run's terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pasta.trace_join.times import TimeMap

MOVED = ("graph_id", "graph_node_id", "stack_id")
"""Ids that mean something else in the other run, and so go on above the largest one there."""

_STREAM_HERE = ["device", "memory_context", "memory_stream"]


@dataclass
class Renaming:
    """One process of the memory run in the timeline run's terms.

    Attributes:
        rank: its rank.
        pid: its pid there.
        known: whether the timeline run has that process.
        times: from its times to those there.
        launches: its launches in order of `memory_launch_id`: that, `launch_id` and `correlation`
            there, and whether they are `matched`; those that are not have free numbers.
        streams: its streams by `device`, `memory_context`, `memory_stream`, with the `context` and
            `stream` there; one that is not there has a context of its own.
        largest: column of ids -> the largest id there.
        threads: thread -> thread there, of those met so far.
        taken: threads that are there.
    """

    rank: int
    pid: int
    known: bool
    times: TimeMap
    launches: pl.DataFrame
    streams: pl.DataFrame
    largest: Mapping[str, int]
    threads: dict[int, int]
    taken: set[int]

    def __post_init__(self) -> None:
        self._ids = self.launches["memory_launch_id"].to_numpy()

    def common(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return rows with the rank, pid, times, thread, and ids of stacks and graphs there."""
        rank, pid = pl.lit(self.rank, pl.Int32), pl.lit(self.pid, pl.Int64)
        changed: list[Any] = [rank.alias("rank"), pid.alias("pid")]
        if "ts" in rows.columns:
            begin = self.moved(rows["ts"])
            changed.append(begin)
            if "dur" in rows.columns:
                changed.append((self.moved(rows["ts"] + rows["dur"]) - begin).alias("dur"))
        if "tid" in rows.columns:
            changed.append(self._threads_there(rows["tid"]))
        for name in set(MOVED) & set(rows.columns):
            moved = pl.col(name) + self.largest.get(name, 0)
            changed.append(pl.when(pl.col(name) > 0).then(moved).otherwise(0).alias(name))
        return rows.with_columns(changed)

    def moved(self, times: pl.Series) -> pl.Series:
        """Return times, ns, as times there; null stays null."""
        there = pl.Series(times.name, self.times(times.fill_null(0).to_numpy()))
        return there.zip_with(times.is_not_null(), pl.Series([None], dtype=pl.Int64))

    def launched(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of known launches with the `launch_id` there."""
        place, found = self._places(rows["launch_id"])
        there = self.launches["launch_id"].gather(place[found])
        return rows.filter(pl.Series(found)).with_columns(there)

    def caused(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return calls with the `correlation` there; 0 where they caused nothing.

        In a memory run the correlation of a call is the id of its launch.
        """
        place, found = self._places(rows["correlation"])
        there = np.zeros(rows.height, dtype=np.uint64)
        there[found] = self.launches["correlation"].to_numpy()[place[found]]
        return rows.with_columns(correlation=pl.Series(there))

    def unmatched(self, kernels: pl.DataFrame) -> pl.DataFrame:
        """Return those kernels that the timeline run lacks, in its streams and without durations."""
        place, found = self._places(kernels["launch_id"])
        only_here = found.copy()
        only_here[found] = ~self.launches["matched"].to_numpy()[place[found]]
        there = self.launches[place[only_here]].select("launch_id", "correlation")
        rows = kernels.filter(pl.Series(only_here)).with_columns(
            *there,
            pl.col("device", "context", "stream").fill_null(0),
            dur=pl.lit(None, pl.Int64),
        )
        here = ["device", "context", "stream"]
        rows = rows.join(
            self.streams,
            left_on=here,
            right_on=_STREAM_HERE,
            how="left",
            maintain_order="left",
            suffix="_there",
        )
        streams = [pl.col(f"{name}_there").alias(name) for name in ("context", "stream")]
        return rows.with_columns(streams).drop("context_there", "stream_there")

    def allocating(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return memory rows with the stream there; null where it is not known for certain."""
        certain = self.streams.filter(pl.len().over("device", "memory_stream") == 1)
        certain = certain.select("device", stream="memory_stream", there="stream")
        joined = rows.join(certain, on=["device", "stream"], how="left", maintain_order="left")
        return joined.with_columns(stream="there").drop("there")

    def _places(self, ids: pl.Series) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the place of each id among the launches, and whether it is there."""
        wanted = ids.fill_null(0).to_numpy()
        if not len(self._ids):
            return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=bool)
        place = np.minimum(np.searchsorted(self._ids, wanted), len(self._ids) - 1)
        return place, self._ids[place] == wanted

    def _threads_there(self, threads: pl.Series) -> pl.Series:
        for thread in threads.unique().drop_nulls().to_list():
            if thread not in self.threads:
                there = thread if thread not in self.taken else max(self.taken) + 1
                self.threads[thread] = there
                self.taken.add(there)
        return threads.replace(self.threads)
