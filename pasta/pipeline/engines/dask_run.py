"""Shards run on the workers of a Dask cluster, a bounded number of them at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import polars as pl

from pasta.errors import EngineError, PastaError
from pasta.pipeline.engines.shard_tasks import (
    Frames,
    ShardWork,
    combine_states,
    packed,
    part,
    run_for_rows,
    run_for_states,
    run_shard,
)
from pasta.pipeline.shards import Shard

FAN_IN = 8
"""States that are combined at once."""

_SHARDS_EACH = 2
"""Shards in flight for each thread of the workers: one runs, one waits."""

_PATIENCE = 5.0
"""Seconds without a result after which the scheduler is looked for."""

_GONE = "cannot be reached any more; see its log, start it again and repeat the run"


class ShardRun:
    """One run of the sharded part of a graph.

    States are combined in a tree by the order of their shards, so that for given shards neither the
    number of workers nor the order in which they finish matters. Dask runs what a worker that died had, or
    had made, again on another one.

    Args:
        client: the connection to the scheduler.
        work: what to do with each shard.
        topic: under which workers log when they read.

    Attributes:
        keys: the tasks that were submitted.
    """

    def __init__(self, client: Any, work: ShardWork, topic: str | None = None) -> None:
        self.keys: set[str] = set()
        self._client = client
        self._topic = topic
        self._work = packed(work)
        self._leaves = (work.leaves_rows, bool(work.combined))
        self._rows: dict[int, Frames] = {}
        self._waiting: dict[Any, int] = {}
        self._levels: list[list[Any]] = [[]]
        self._threads = (0, float("-inf"))

    def run(self, shards: Sequence[Shard]) -> tuple[dict[str, list[pl.DataFrame]], Frames]:
        """Run all shards.

        Returns:
            For each shipped node its rows on each shard, in their order; for each combined node
            one state. Nodes that no shard reaches are absent.

        Raises:
            EngineError: the scheduler is gone, or a shard failed for good.
        """
        from distributed import CancelledError
        from distributed.comm import CommClosedError

        try:
            with self._client.as_current():
                for place, shard in enumerate(shards):
                    self._make_room()
                    self._submit(place, shard)
                while self._waiting:
                    self._take_finished()
                return self._all_rows(), self._combined()
        except (CancelledError, CommClosedError) as error:
            raise self._lost() from error

    def _make_room(self) -> None:
        """Wait until a shard fits among those in flight; workers may come and go."""
        while self._waiting and len(self._waiting) >= max(_SHARDS_EACH * self._count_threads(), 1):
            self._take_finished()

    def _count_threads(self) -> int:
        """Return how many threads the workers have together, as they were a second ago at most."""
        threads, asked = self._threads
        if time.monotonic() - asked > 1:
            threads = sum(self._client.nthreads().values())
            self._threads = (threads, time.monotonic())
        return threads

    def _submit(self, place: int, shard: Shard) -> None:
        given = (self._work, shard, place, self._topic)
        match self._leaves:
            case (True, False):
                self._waiting[self._task(run_for_rows, *given)] = place
            case (False, True):
                state = self._task(run_for_states, *given)
                self._waiting[state] = place
                self._add_state(state, level=0)
            case _:
                both = self._task(run_shard, *given)
                self._waiting[self._task(part, both, 0, priority=1)] = place
                self._add_state(self._task(part, both, 1, priority=1), level=0)

    def _task(self, function: Any, *arguments: Any, priority: int = 0) -> Any:
        future = self._client.submit(function, *arguments, pure=False, priority=priority)
        self.keys.add(future.key)
        return future

    def _add_state(self, state: Any, level: int) -> None:
        """Hold a state, and have a full block of them combined."""
        if level == len(self._levels):
            self._levels.append([])
        self._levels[level].append(state)
        if len(self._levels[level]) == FAN_IN:
            block, self._levels[level] = self._levels[level], []
            self._add_state(self._combine(block), level + 1)

    def _combine(self, states: Sequence[Any]) -> Any:
        return self._task(combine_states, self._work, *states, priority=2)

    def _combined(self) -> Frames:
        left = [state for level in reversed(self._levels) for state in level]
        if not left:
            return {}
        last = self._combine(left)
        while not self._done([last]):
            pass
        found: Frames = self._result(last)
        return found

    def _take_finished(self) -> None:
        """Take the rows of the shards that have finished, and let the workers forget them.

        A shard that leaves only a state leaves it where it is, unless it failed.
        """
        for future in self._done(list(self._waiting)):
            place = self._waiting.pop(future)
            if self._leaves[0] or future.status == "error":
                self._rows[place] = self._result(future)

    def _done(self, futures: Sequence[Any]) -> set[Any]:
        """Return those of `futures` that have finished, or none after a while."""
        from distributed import TimeoutError as DaskTimeoutError
        from distributed import wait

        try:
            return set(wait(futures, timeout=_PATIENCE, return_when="FIRST_COMPLETED").done)
        except (DaskTimeoutError, TimeoutError):
            if self._client.status != "running":
                raise self._lost() from None
            return set()

    def _result(self, future: Any) -> Any:
        from distributed import KilledWorker

        try:
            return future.result()
        except PastaError:
            raise
        except KilledWorker as error:
            raise EngineError(
                f"a shard ended {error.allowed_failures + 1} workers one after another; does it fit"
                " into a worker's memory? Give workers more of it, or start fewer"
            ) from error
        except (pl.exceptions.PolarsError, OSError, ImportError) as error:
            if not isinstance(error, pl.exceptions.PolarsError) and self._is_lost():
                raise self._lost() from error
            text = " ".join(f"{type(error).__name__}: {error}".split())
            raise EngineError(f"the dask engine failed on a worker: {text}") from error

    def _is_lost(self) -> bool:
        return bool(self._client.status != "running")

    def _lost(self) -> EngineError:
        return EngineError(f"the Dask scheduler at {self._client.scheduler.address} {_GONE}")

    def _all_rows(self) -> dict[str, list[pl.DataFrame]]:
        found: dict[str, list[pl.DataFrame]] = {}
        for place in sorted(self._rows):
            for name, rows in self._rows[place].items():
                found.setdefault(name, []).append(rows)
        return found
