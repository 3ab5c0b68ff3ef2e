"""Writing the table `access` of a recording, on threads beside the one that receives."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from pasta.collect.channel_ring import Batch, Producer
from pasta.collect.warp_accesses import WARP, Warps, rows_in, warps_of, write_accesses

TABLE = "access"
FILE_WARPS = 1 << 16
"""Instructions of warps in a file; up to 32 rows each."""
_MOST_WORKERS = 6


class _Gathered:
    """What came from one ring and is in no file yet."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.since = time.monotonic()
        self._warps: Warps = np.empty(FILE_WARPS, WARP)
        self._used = 0

    @property
    def full(self) -> bool:
        return self._used == FILE_WARPS

    @property
    def warps(self) -> Warps:
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

    Where accesses come faster than they can be written, batches stay in the rings that they came
    through: these fill, and their kernels wait. Other rings are read meanwhile.

    Args:
        folder_of: folder of a rank's tables.
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
        self._held: deque[Batch] = deque()
        self._gathered: dict[str, _Gathered] = {}
        self._workers = max(1, min(_MOST_WORKERS, len(os.sched_getaffinity(0)) // 2))
        self._pool: ThreadPoolExecutor | None = None
        self._writing: deque[Future[int]] = deque()
        self._files: dict[int, int] = {}
        self._arrived = 0

    def take(self, batch: Batch) -> None:
        """Take a batch of `warp_access`, which is given back to its ring when there is room.

        Raises:
            OSError: a file could not be written.
        """
        self._held.append(batch)
        self.advance()

    def advance(self) -> None:
        """Do what can be done without waiting.

        Raises:
            OSError: a file could not be written.
        """
        while self._writing and self._writing[0].done():
            self._settle()
        while self._held and self._has_room():
            with self._held.popleft() as batch:
                self._gather(batch)
        for ring, gathered in list(self._gathered.items()):
            if time.monotonic() - gathered.since >= self._file_seconds and self._has_room():
                self._submit(ring)

    @property
    def busy(self) -> bool:
        """Whether batches wait for room."""
        return bool(self._held)

    def arrived(self) -> int:
        """Return how many rows came since the last call."""
        arrived, self._arrived = self._arrived, 0
        return arrived

    def finish(self) -> None:
        """Write all, and wait for it.

        Raises:
            OSError: a file could not be written.
        """
        while self._held:
            self.advance()
            if self._held:
                self._settle()
        for ring in list(self._gathered):
            self._submit(ring)
        while self._writing:
            self._settle()
        self.abandon()

    def abandon(self) -> None:
        """Give back what is held, and write no more."""
        while self._held:
            self._held.popleft().release()
        self._gathered.clear()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _has_room(self) -> bool:
        return len(self._writing) <= 2 * self._workers

    def _settle(self) -> None:
        """Wait for the file that was begun first."""
        self.bytes += self._writing.popleft().result()

    def _gather(self, batch: Batch) -> None:
        producer = batch.producer
        try:
            warps = warps_of(batch.rows)
        except ValueError:
            self.senseless[producer] = self.senseless.get(producer, 0) + batch.rows.num_rows
            return
        rows = rows_in(warps)
        self._arrived += rows
        self.rows[producer.rank] = self.rows.get(producer.rank, 0) + rows
        while len(warps):
            if batch.ring not in self._gathered:
                self._gathered[batch.ring] = _Gathered(producer)
            warps = self._gathered[batch.ring].add(warps)
            if self._gathered[batch.ring].full:
                self._submit(batch.ring)

    def _submit(self, ring: str) -> None:
        """Have a file written of what was gathered from a ring."""
        gathered = self._gathered.pop(ring)
        rank = gathered.producer.rank
        number = self._files[rank] = self._files.get(rank, -1) + 1
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._workers, "pasta-access")
        path = self._folder_of(rank) / TABLE / f"warps-{number:06d}.parquet"
        self._writing.append(self._pool.submit(_write, path, gathered))


def _write(path: Path, gathered: _Gathered) -> int:
    """Write a file that is complete as soon as it has its name; return its size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    size = write_accesses(hidden, gathered.warps, gathered.producer)
    hidden.rename(path)
    return size
