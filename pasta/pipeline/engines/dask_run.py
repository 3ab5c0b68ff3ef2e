"""Shards run on the workers of a Dask cluster, a bounded number of them at a time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import polars as pl

from pasta.errors import EngineError, PastaError
from pasta.pipeline.engines.shard_blocks import ShardBlocks
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
from pasta.pipeline.engines.state_tree import StateTree
from pasta.pipeline.shards import Shard

_SHARDS_EACH = 2
"""Shards in flight for each thread of the workers: one runs, one waits."""

_MANY_BYTES = 1 << 20
"""Of a run's work, from which on it does not travel with each task."""

_PATIENCE = 5.0
"""Seconds without a result after which the scheduler is looked for."""

_STOPPING_SECONDS = 0.05
"""How often to ask whether shards still run that are of no use any more."""

_GONE = "cannot be reached any more; see its log, start it again and repeat the run"


class ShardRun:
    """One run of the sharded part of a graph.

    Neither the number of workers nor the order in which shards finish matters. Dask runs what a worker
    that died had, or had made, again on another one.

    Args:
        client: the connection to the scheduler.
        work: what to do with each shard.
        topic: under which workers log when they read.

    Attributes:
        work: what is done with each shard.
        keys: the tasks that were submitted.
        cuts: into how many parts states were cut.
    """

    def __init__(self, client: Any, work: ShardWork, topic: str | None = None) -> None:
        self.keys: set[str] = set()
        self.work, self.cuts = work, 1
        self._client = client
        self._topic = topic
        self._bytes: Any = b""
        self._leaves = (work.leaves_rows, bool(work.combined))
        self._rows: dict[int, Frames] = {}
        self._waiting: dict[Any, tuple[int, str | None]] = {}
        self._states = StateTree[Any](self._combine)
        self._later: dict[int, Any] = {}
        self._added = 0
        self._threads: tuple[dict[str, int], float] = ({}, float("-inf"))

    def run(self, shards: Sequence[Shard]) -> dict[str, pl.LazyFrame]:
        """Run all shards.

        Returns:
            Plans that read the rows of the nodes that ran.

        Raises:
            EngineError: the scheduler is gone, or a shard failed for good.
        """
        from distributed import CancelledError
        from distributed.comm import CommClosedError

        try:
            with self._client.as_current():
                self._bytes = self._sent(packed(self.work))
                blocks = ShardBlocks(len(shards))
                while blocks:
                    worker = self._worker_with_room()
                    place = blocks.take(worker)
                    self._submit(place, shards[place], worker)
                while self._waiting:
                    self._take_finished()
                return self.results()
        except (CancelledError, CommClosedError) as error:
            raise self._lost() from error

    def _sent(self, work: bytes) -> Any:
        """Return what tasks take as their work; where it is large, what one task makes of it for all others."""
        if len(work) < _MANY_BYTES:
            return work
        return self._client.submit(bytes, work, pure=False, priority=3)

    def stop(self) -> None:
        """Give up the shards that have not begun after one failed, and wait for those that run."""
        self._client.cancel([*self._waiting, *self._states.held(), *self._later.values()])
        while any(self._client.run(_executing).values()):
            time.sleep(_STOPPING_SECONDS)

    def results(self) -> dict[str, pl.LazyFrame]:
        """Return plans that read the rows of the nodes that ran, from what all shards left."""
        last = self._states.root()
        return self.work.results(self._all_rows(), {} if last is None else self.gathered([last])[0])

    def _worker_with_room(self) -> str | None:
        """Wait until a shard fits among those in flight, and say where; workers may come and go."""
        while True:
            busy = Counter(worker for _, worker in self._waiting.values())
            threads = self._count_threads()
            free = [name for name, count in threads.items() if busy[name] < _SHARDS_EACH * count]
            if free:
                return min(free, key=lambda name: busy[name] / threads[name])
            if not self._waiting:
                return None
            self._take_finished()

    def _count_threads(self) -> dict[str, int]:
        """Return how many threads each worker has, as of a second ago at most."""
        threads, asked = self._threads
        if time.monotonic() - asked > 1:
            threads = self._client.nthreads()
            self._threads = (threads, time.monotonic())
        return threads

    def _submit(self, place: int, shard: Shard, worker: str | None) -> None:
        given = (self._bytes, shard, place, self._topic)
        where = [worker] if worker else None
        match self._leaves:
            case (True, False):
                self._waiting[self.task(run_for_rows, *given, workers=where)] = (place, worker)
            case (False, True):
                state = self.task(run_for_states, *given, workers=where)
                self._waiting[state] = (place, worker)
                self._add_state(place, state)
            case _:
                both = self.task(run_shard, *given, workers=where)
                rows = self.task(part, both, 0, priority=1)
                self._waiting[rows] = (place, worker)
                self._add_state(place, self.task(part, both, 1, priority=1))

    def _add_state(self, place: int, state: Any) -> None:
        """Add the state of a shard to the tree, once those of all shards before it are there."""
        self._later[place] = state
        while self._added in self._later:
            self._states.add(self._later.pop(self._added))
            self._added += 1

    def task(self, function: Any, *arguments: Any, priority: int = 0, workers: Any = None) -> Any:
        """Submit a task, for those `workers` rather than for others; return its future."""
        future = self._client.submit(
            function,
            *arguments,
            pure=False,
            priority=priority,
            workers=workers,
            allow_other_workers=workers is not None,
        )
        self.keys.add(future.key)
        return future

    def gathered(self, futures: Sequence[Any]) -> list[Any]:
        """Wait for the results of all tasks and return them.

        Raises:
            EngineError: the scheduler is gone, or a task failed for good.
        """
        self._wait_for(futures)
        return [self._result(future) for future in futures]

    def bytes_of(self, futures: Sequence[Any]) -> int:
        """Wait for the results of all tasks and return how large they are together."""
        self._wait_for(futures)
        sizes = self._client.nbytes([future.key for future in futures], summary=False)
        return int(sum(sizes.values()))

    def _wait_for(self, futures: Sequence[Any]) -> None:
        for future in futures:
            while not self._done([future]):
                pass

    def _combine(self, states: Sequence[Any]) -> Any:
        return self.task(combine_states, self._bytes, *states, priority=2)

    def _take_finished(self) -> None:
        """Take the rows of the shards that have finished, and let the workers forget them.

        A shard that leaves only a state leaves it where it is, unless it failed.
        """
        for future in self._done(list(self._waiting)):
            place, _ = self._waiting.pop(future)
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
            self._free_stranded()
            return set()

    def _free_stranded(self) -> None:
        """Let tasks run anywhere that wait for a worker that is gone.

        Where no worker is left, Dask keeps them for one of that address, whichever may come.
        """
        keys = self.keys

        def free(dask_scheduler: Any) -> None:  # nested, as the scheduler may lack pasta
            stranded = [task for task in dask_scheduler.unrunnable if task.key in keys]
            for task in stranded:
                task.worker_restrictions = None
            recommended = {task.key: "processing" for task in stranded}
            dask_scheduler.transitions(recommended, stimulus_id="free-stranded")

        self._client.run_on_scheduler(free)

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


def _executing(dask_worker: Any) -> int:
    """Return how many tasks this worker runs, whether they are still asked for or not."""
    count: int = dask_worker.state.executing_count
    return count
