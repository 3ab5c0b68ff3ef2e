"""Importing the files that recorded programs announce, beside the batches of the channel."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from pasta.collect.channel_ring import Producer
from pasta.collect.cycles import Cycles
from pasta.schema import arrow_schema

_FAILED = "files of the collector that could not be imported: {}"

Append = Callable[[int, str, pa.Table], None]


class FileImports:
    """Imports files one after the other, on a thread of its own, and removes them.

    Args:
        folders: where files may lie; others are not touched.
        append: takes rank, table and rows; for any thread.
    """

    def __init__(self, folders: Sequence[Path], append: Append) -> None:
        self._folders = [folder.resolve() for folder in folders]
        self._append = append
        self._cycles: dict[tuple[int, int], Cycles] = {}
        self._waiting: queue.Queue[tuple[Producer, Path, int] | None] = queue.Queue()
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether files wait or one is being imported."""
        return self._waiting.unfinished_tasks > 0

    def put(self, producer: Producer, path: Path, shift_ns: int) -> None:
        """Import a file soon.

        Args:
            producer: the process that wrote it.
            path: the file.
            shift_ns: added to all its times.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="pasta imports", daemon=True)
            self._thread.start()
        self._waiting.put((producer, path, shift_ns))

    def close(self) -> None:
        """Return when all is imported."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (file := self._waiting.get()) is not None:
            producer, path, shift_ns = file
            try:
                self._import(producer, path, shift_ns)
            except Exception as error:  # noqa: BLE001 - whatever it is, the recording goes on
                self._count_failure(producer, error)
            finally:
                self._waiting.task_done()
        self._waiting.task_done()

    def _import(self, producer: Producer, path: Path, shift_ns: int) -> None:
        if path.resolve().parent not in self._folders:
            raise ValueError("it lies outside the channel and the trace")
        rank, pid = producer.rank, producer.pid
        cycles = self._cycles.get((rank, pid))
        if cycles is None:
            cycles = Cycles(rank, pid, lambda table, rows: self._append(rank, table, rows))
            self._cycles[rank, pid] = cycles
        try:
            cycles.add(path, shift_ns)
        finally:
            with contextlib.suppress(OSError):
                path.unlink()

    def _count_failure(self, producer: Producer, error: Exception) -> None:
        reason = _FAILED.format(" ".join(str(error).split()) or type(error).__name__)
        row = {
            "rank": producer.rank,
            "pid": producer.pid,
            "collector": "torch",
            "reason": reason,
            "count": 1,
        }
        rows = pa.Table.from_pylist([row], schema=arrow_schema("loss"))
        self._append(producer.rank, "loss", rows)
