"""What the rows of a timeline stand for, as the names of their processes and threads tell."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, NamedTuple

_DEVICE = re.compile(
    r"\bdevice:(?P<kind>[GTX]PU):(?P<a>\d{1,9})|^(?:\d+ )?GPU ?(?P<b>\d{1,9})\b|^Device (?P<c>\d{1,9})\b"
)
_COPIES = re.compile(r"^\d+ COPY$")
_CALLS = re.compile(r"^\d+ (?:CPU )?(?:HIP|HSA|CUDA|KFD) API$")
_STREAM = re.compile(r"\bstream\D{0,3}(\d{1,18})", re.IGNORECASE)
_ONE_STREAM = re.compile(r"/stream:\d")
_DERIVED = frozenset(
    {
        *("Steps", "XLA Modules", "XLA Ops", "XLA TraceMe", "Async XLA Ops", "Source code"),
        *("Framework Ops", "Framework Name Scope", "TensorFlow Ops", "TensorFlow Name Scope"),
        *("Source Code", "Launch Stats"),
    }
)
_OPERATIONS_OF_TPU = "XLA Ops"


class Kind(Enum):
    """What the events of a lane are."""

    HOST = "host"
    DEVICE = "device"
    COPIES = "copies"
    CALLS = "calls"
    DERIVED = "derived"


class Lane(NamedTuple):
    """One row of a timeline.

    Attributes:
        kind: what its events are.
        device: the device's ordinal; -1: the host, or unknown.
        stream: the stream; `None`: it has no number.
    """

    kind: Kind
    device: int = -1
    stream: int | None = None


class Lanes:
    """Names of processes and threads, and what they make of lanes.

    Attributes:
        processes: name by `pid` as it stands in the file.
        threads: name by `pid` and `tid` as they stand in the file.
    """

    def __init__(self) -> None:
        self.processes: dict[str, str] = {}
        self.threads: dict[tuple[str, str], str] = {}
        self._known: dict[tuple[Any, Any], Lane] = {}

    def name(self, kind: str, pid: Any, tid: Any, name: str) -> None:
        """Keep what a metadata event says."""
        if kind == "process_name":
            self.processes[str(pid)] = name
        elif kind == "thread_name":
            self.threads[str(pid), str(tid)] = name
        self._known.clear()

    def of(self, pid: Any, tid: Any) -> Lane:
        """Return the lane of events of a process and thread."""
        key = (str(pid), str(tid))
        lane = self._known.get(key)
        if lane is None:
            lane = self._known[key] = self._find(*key)
        return lane

    def _find(self, pid: str, tid: str) -> Lane:
        process = self.processes.get(pid, pid)
        thread = self.threads.get((pid, tid), tid)
        if _COPIES.search(process):
            return Lane(Kind.COPIES)
        if _CALLS.search(process):
            return Lane(Kind.CALLS)
        device = _DEVICE.search(process)
        if device is None:
            return Lane(Kind.HOST)
        number = int(device["a"] or device["b"] or device["c"])
        stream = _STREAM.search(thread)
        derived = (stream is None and thread in _DERIVED) or _ONE_STREAM.search(process)
        if derived and not (device["kind"] == "TPU" and thread == _OPERATIONS_OF_TPU):
            return Lane(Kind.DERIVED, number)
        plain = int(tid) if tid.isdecimal() and len(tid) < 18 else None
        return Lane(Kind.DEVICE, number, int(stream[1]) if stream else plain)
