"""Writing the table `access` of a recording, on threads beside the one that receives."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from pasta.collect.channel_ring import Batch, Producer
from pasta.collect.warp_accesses import WARP, Warps, rows_in, warps_of, write_accesses
from pasta.whole_file import whole_file

TABLE = "access"
FILE_WARPS = 1 << 16
"""Instructions of warps in a file; up to 32 rows each."""
_MOST_WORKERS = 6
_SHORTEST_WAIT = 0.01


class _Gathered:
    """What came from one ring and is in no file yet."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.since = time.monotonic()
        self._warps: Warps = np.empty(FILE_WARPS, WARP)
        self._used = 0

    @property
    def full(self) -> bool:
        """Whether nothing more fits."""
        return self._used == FILE_WARPS

    @property
    def warps(self) -> Warps:
        """What was added, in the order in which it came."""
        return self._warps[: self._used]

    def add(self, warps: Warps) -> Warps:
        """Copy what there is room for; return the rest."""
        fitting = warps[: FILE_WARPS - self._used]
        place = self._warps[self._used : self._used + len(fitting)]
        place.view(np.uint8)[:] = fitting.view(np.uint8)  # all at once, not field by field
        self._used += len(fitting)
        return warps[len(fitting) :]


class AccessFiles:
    """Files of accesses, each sorted, all of them in the order in which they came.

    Whoever receives only hands batches over. One thread copies them out of the rings that they came
    through, others sort and write. Where accesses come faster than they can be written, batches stay
    in their rings: these fill, and their kernels wait. Other rings are read meanwhile.

    Args:
        folder_of: folder of a rank's tables; for any thread.
        file_seconds: how long rows wait before they are in a file.

    Attributes:
        rows: rows of each rank that came.
        senseless: instructions of warps that could not be understood, by who sent them.
        bytes: size of the files that are written.
    """

    def __init__(self, folder_of: Callable[[int], Path], file_seconds: float) -> None:
        self.rows: dict[int, int] = {}
        self.senseless: dict[Producer, int] = {}
        self.bytes = 0
        self._folder_of = folder_of
        self._file_seconds = file_seconds
        self._waiting: queue.Queue[Batch | None] = queue.Queue()
        self._gatherer: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._abandoned = False
        self._gathered: dict[str, _Gathered] = {}
        self._workers = max(1, min(_MOST_WORKERS, len(os.sched_getaffinity(0)) // 2))
        self._pool = ThreadPoolExecutor(self._workers, "pasta-access")
        self._writing: deque[Future[int]] = deque()
        self._files: dict[int, int] = {}
        self._arrived = self._told = 0

    def take(self, batch: Batch) -> None:
        """Take a batch of `warp_access`, which is given back to its ring when it is copied.

        Raises:
            OSError: a file could not be written; the batch is not taken.
        """
        self.check()
        if self._gatherer is None:
            self._gatherer = threading.Thread(target=self._run, name="pasta accesses", daemon=True)
            self._gatherer.start()
        self._waiting.put(batch)

    def check(self) -> None:
        """Tell of a failure.

        Raises:
            OSError: a file could not be written, for want of memory too.
        """
        if isinstance(self._failure, OSError):
            raise self._failure
        if self._failure is not None:
            raise OSError(f"accesses: {self._failure!r}") from self._failure

    @property
    def busy(self) -> bool:
        """Whether batches wait to be copied."""
        return self._waiting.unfinished_tasks > 0

    def arrived(self) -> int:
        """Return how many rows came since the last call."""
        told, self._told = self._told, self._arrived
        return self._told - told

    def finish(self) -> None:
        """Write all, and wait for it.

        Raises:
            OSError: a file could not be written.
        """
        self._end()
        self.check()

    def abandon(self) -> None:
        """Give back what waits, and write no more."""
        self._abandoned = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._end()

    def _end(self) -> None:
        if self._gatherer is not None:
            self._waiting.put(None)
            self._gatherer.join()
            self._gatherer = None
            self._gathered.clear()
            self._pool.shutdown()

    def _run(self) -> None:
        """Gather batches until there are no more."""
        while True:
            try:
                batch = self._waiting.get(timeout=self._patience())
            except queue.Empty:
                self._attempt(self._write_due)
                continue
            if batch is None:
                self._attempt(self._write_rest)
                self._waiting.task_done()
                return
            self._attempt(self._gather, batch)
            self._give_back(batch)
            self._attempt(self._write_due)

    def _patience(self) -> float | None:
        """Return how long to wait for a batch; without end where there is nothing else to do."""
        if not self._gathered and not self._writing:
            return None
        now = time.monotonic()
        oldest = min((gathered.since for gathered in self._gathered.values()), default=now)
        return max(oldest + self._file_seconds - now, _SHORTEST_WAIT)

    def _attempt(self, action: Callable[..., None], *arguments: Batch) -> None:
        """Do what may fail; after a failure nothing is done any more."""
        if self._failure is None and not self._abandoned:
            try:
                action(*arguments)
            except BaseException as error:  # noqa: BLE001 - for the thread that receives
                self._failure = error

    def _give_back(self, batch: Batch) -> None:
        try:
            batch.release()
        except BaseException as error:  # noqa: BLE001 - for the thread that receives
            self._failure = self._failure or error
        finally:
            self._waiting.task_done()

    def _gather(self, batch: Batch) -> None:
        self._wait_for_room()
        producer = batch.producer
        try:
            warps = warps_of(batch.rows)
        except ValueError:
            self.senseless[producer] = self.senseless.get(producer, 0) + batch.rows.num_rows
            return
        rows = rows_in(warps)
        while len(warps):
            if batch.ring not in self._gathered:
                self._gathered[batch.ring] = _Gathered(producer)
            warps = self._gathered[batch.ring].add(warps)
            if self._gathered[batch.ring].full:
                self._submit(batch.ring)
        self._arrived += rows
        self.rows[producer.rank] = self.rows.get(producer.rank, 0) + rows

    def _write_due(self) -> None:
        """Have written what has waited long enough."""
        while self._writing and self._writing[0].done():
            self._settle()
        for ring, gathered in list(self._gathered.items()):
            if time.monotonic() - gathered.since >= self._file_seconds:
                self._wait_for_room()
                self._submit(ring)

    def _write_rest(self) -> None:
        for ring in list(self._gathered):
            self._submit(ring)
        while self._writing:
            self._settle()

    def _wait_for_room(self) -> None:
        while len(self._writing) > 2 * self._workers:
            self._settle()

    def _settle(self) -> None:
        """Wait for the file that was begun first."""
        self.bytes += self._writing.popleft().result()

    def _submit(self, ring: str) -> None:
        """Have a file written of what was gathered from a ring."""
        gathered = self._gathered.pop(ring)
        rank = gathered.producer.rank
        number = self._files[rank] = self._files.get(rank, -1) + 1
        path = self._folder_of(rank) / TABLE / f"warps-{number:06d}.parquet"
        self._writing.append(self._pool.submit(_write, path, gathered))


def _write(path: Path, gathered: _Gathered) -> int:
    """Write a file that is complete as soon as it has its name; return its size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary:
        return write_accesses(temporary, gathered.warps, gathered.producer)
