"""Tracks of Perfetto's traces: of processes, threads, streams and counters, described once each."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pasta.exports.columns import numbered
from pasta.exports.lanes import Lanes
from pasta.exports.names import Process, process_numbers, process_texts, thread_texts
from pasta.exports.timeline import HOST_TABLES
from pasta.exports.wire import bytes_field, number_field, text_field
from pasta.trace import Trace

SEQUENCE = number_field(10, 1)
CLEARED, NEEDS = 1, 2
_BYTES_UNIT = 3
_HOST = ("rank", "pid", "tid")
_DEVICE = ("rank", "pid", "device", "context", "stream")


def packet(content: bytes) -> bytes:
    """Return a packet of the only sequence."""
    return bytes_field(1, content + SEQUENCE)


class Tracks:
    """Numbers tracks, and describes each before it is used.

    Args:
        trace: whose processes and threads have names.

    Attributes:
        lanes: where slices of tracks go.
    """

    def __init__(self, trace: Trace) -> None:
        self.lanes = Lanes()
        self._pids = process_numbers(trace)
        self._positions = {process: place for place, process in enumerate(self._pids)}
        self._processes = process_texts(trace)
        self._threads = thread_texts(trace)
        self._tracks: dict[tuple[Any, ...], int] = {}
        self._keys: list[tuple[Any, ...]] = []
        self._uuids: dict[tuple[Any, ...], int] = {}
        self._of_lanes: list[int] = []
        self._described: list[bytes] = []
        self._count = 0

    def numbers(self, table: str, rows: pl.DataFrame) -> NDArray[np.int64]:
        """Return the track of each slice."""
        columns = _HOST if table in HOST_TABLES else _DEVICE
        return numbered(rows, columns, self._track)

    def processes(self, rows: pl.DataFrame) -> NDArray[np.int64]:
        """Return the place of the process of each row among all."""
        return numbered(rows, ("rank", "pid"), self._positions.__getitem__)

    def uuids(self, lanes: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the track of each lane as it is known in the file."""
        for lane in self.lanes.lanes[len(self._of_lanes) :]:
            self._of_lanes.append(self._lane(self._keys[lane.track], lane.place))
        return np.array(self._of_lanes, np.uint64)[lanes]

    def counters(self, values: pl.DataFrame) -> NDArray[np.uint64]:
        """Return the track of each value of a counter as it is known in the file."""
        return numbered(values, ("rank", "pid", "name", "unit"), self._counter).view(np.uint64)

    def described(self) -> list[bytes]:
        """Return the packets that describe tracks which have come since the last time."""
        found, self._described = self._described, []
        return found

    def _track(self, key: tuple[Any, ...]) -> int:
        if key not in self._tracks:
            self._tracks[key] = len(self._keys)
            self._keys.append(key)
        return self._tracks[key]

    def _lane(self, key: tuple[Any, ...], place: int) -> int:
        process: Process = (key[0], key[1])
        parent = number_field(5, self._process(process))
        if len(key) == len(_HOST) and not place:
            pid, tid = self._pids[process], key[2]
            name = self._threads.get((*process, tid)) or f"thread {tid}"
            thread = number_field(1, pid) + number_field(2, tid) + text_field(5, name)
            return self._describe(parent + bytes_field(4, thread))
        if len(key) == len(_HOST):
            name = f"thread {key[2]}"
        else:
            stream = "all streams" if key[4] is None else f"stream {key[4]}"
            name = f"GPU {key[2]} {stream}" + (f" context {key[3]}" if key[3] else "")
        name += f" ({place + 1})" if place else ""
        return self._describe(text_field(2, name) + parent)

    def _process(self, process: Process) -> int:
        if process not in self._uuids:
            pid = number_field(1, self._pids[process])
            name = text_field(6, self._processes.get(process) or f"process {process[1]}")
            self._uuids[process] = self._describe(bytes_field(3, pid + name))
        return self._uuids[process]

    def _counter(self, key: tuple[int, int, str, str]) -> int:
        rank, pid, name, unit = key
        if key not in self._uuids:
            about = number_field(3, _BYTES_UNIT) if unit == "bytes" else text_field(6, unit)
            parent = number_field(5, self._process((rank, pid)))
            self._uuids[key] = self._describe(text_field(2, name) + parent + bytes_field(8, about))
        return self._uuids[key]

    def _describe(self, content: bytes) -> int:
        self._count += 1
        self._described.append(packet(bytes_field(60, number_field(1, self._count) + content)))
        return self._count
