"""The tracks of a Perfetto trace, and the threads and processes that they are of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pasta.collect.containers.protobuf_fields import by_number, message, text
from pasta.collect.importers.perfetto.messages import Values, inner, integer, string, whole

_UUID, _NAME, _PROCESS, _THREAD, _PARENT, _COUNTER = 1, 2, 3, 4, 5, 8
_PID, _TID, _CMDLINE, _PROCESS_NAME, _THREAD_NAME = 1, 2, 2, 6, 5
_UNIT, _MULTIPLIER, _INCREMENTAL, _UNIT_NAME = 3, 4, 5, 6
_UNITS = {1: "ns", 2: "", 3: "bytes"}
_TREE_PROCESSES, _TREE_THREADS = 1, 2
_TREE_CMDLINE, _TREE_TGID, _TREE_NAME = 3, 3, 2
_PARENTS_MAX = 32


@dataclass
class Track:
    """One track.

    Attributes:
        name: as its descriptor says.
        parent: the track that it is of; 0: none.
        pid: the process; `None`: that of the parent.
        tid: the thread; `None`: it is none's.
        number: counts the tracks that are no thread's, from 1.
        unit: of a counter's values.
        factor: of a counter's values.
        incremental: whether a counter's values are differences.
    """

    name: str = ""
    parent: int = 0
    pid: int | None = None
    tid: int | None = None
    number: int = 0
    unit: str = ""
    factor: int = 1
    incremental: bool = False


@dataclass
class Tracks:
    """All tracks, threads and processes that were described.

    Attributes:
        threads: names by (pid, tid).
        processes: names by pid.
        undescribed: events of tracks that were not described before them.
    """

    threads: dict[tuple[int, int], str] = field(default_factory=dict)
    processes: dict[int, str] = field(default_factory=dict)
    undescribed: int = 0
    _tracks: dict[int, Track] = field(default_factory=dict)
    _threadless: int = 0

    def describe(self, descriptor: Values) -> None:
        """Take a `TrackDescriptor`."""
        track = self._tracks.setdefault(whole(descriptor, _UUID), Track())
        track.name = string(descriptor, _NAME) or track.name
        track.parent = whole(descriptor, _PARENT) or track.parent
        if _PROCESS in descriptor:
            track.pid = self.describe_process(inner(descriptor, _PROCESS))
        if _THREAD in descriptor:
            track.pid, track.tid = self.describe_thread(inner(descriptor, _THREAD))
            if track.name:
                self.threads[track.pid, track.tid] = track.name
        if _COUNTER in descriptor:
            counter = inner(descriptor, _COUNTER)
            track.unit = string(counter, _UNIT_NAME) or _UNITS.get(whole(counter, _UNIT), "")
            track.factor = integer(counter, _MULTIPLIER) or 1
            track.incremental = bool(whole(counter, _INCREMENTAL))

    def describe_process(self, descriptor: Values) -> int:
        """Take a `ProcessDescriptor`; return the process."""
        pid = _id(descriptor, _PID)
        command = " ".join(text(part) for part in descriptor.get(_CMDLINE, []))
        name = command or string(descriptor, _PROCESS_NAME)
        self.processes[pid] = name or self.processes.get(pid, "")
        return pid

    def describe_thread(self, descriptor: Values) -> tuple[int, int]:
        """Take a `ThreadDescriptor`; return process and thread."""
        pid, tid = _id(descriptor, _PID), _id(descriptor, _TID)
        name = string(descriptor, _THREAD_NAME)
        self.threads[pid, tid] = name or self.threads.get((pid, tid), "")
        return pid, tid

    def describe_tree(self, tree: Values) -> None:
        """Take a `ProcessTree`."""
        for data in tree.get(_TREE_PROCESSES, []):
            process = by_number(message(data))
            command = " ".join(text(part) for part in process.get(_TREE_CMDLINE, []))
            self.processes[_id(process, 1)] = command
        for data in tree.get(_TREE_THREADS, []):
            thread = by_number(message(data))
            self.threads[_id(thread, _TREE_TGID), _id(thread, 1)] = string(thread, _TREE_NAME)

    def track(self, uuid: int) -> Track:
        """Return a track, made if it was not described."""
        if uuid not in self._tracks:
            self.undescribed += uuid != 0
            self._tracks[uuid] = Track()
        return self._tracks[uuid]

    def process(self, uuid: int) -> int:
        """Return the process of a track; 0: it is of none that is known."""
        track = self.track(uuid)
        for _ in range(_PARENTS_MAX):
            if track.pid is not None or track.parent not in self._tracks:
                break
            track = self._tracks[track.parent]
        return track.pid or 0

    def place(self, uuid: int) -> tuple[int, int]:
        """Return process and thread of a track; tracks of no thread have negative numbers."""
        track, pid = self.track(uuid), self.process(uuid)
        if track.tid is not None:
            return pid, track.tid
        if not track.number:
            self._threadless += 1
            track.number = self._threadless
            self.threads[pid, -track.number] = track.name
        return pid, -track.number

    def rows(self, extents: dict[int, tuple[int, int]]) -> tuple[list[Any], list[Any]]:
        """Return rows of `process` and of `thread`.

        Args:
            extents: first and last time of each process with rows.
        """
        pids = dict.fromkeys([*extents, *self.processes])
        processes = [
            {
                "pid": pid,
                "command": self.processes.get(pid) or None,
                "started": extents.get(pid, (None, None))[0],
                "ended": extents.get(pid, (None, None))[1],
                "stack_id": 0,
            }
            for pid in pids
        ]
        threads = [
            {"pid": pid, "tid": tid, "name": name or None, "stack_id": 0}
            for (pid, tid), name in self.threads.items()
        ]
        return processes, threads


def _id(values: Values, number: int) -> int:
    """Return a process or thread id; nonsense stays within 62 bits."""
    found = integer(values, number)
    return found if abs(found) < 1 << 62 else found & ((1 << 62) - 1)
