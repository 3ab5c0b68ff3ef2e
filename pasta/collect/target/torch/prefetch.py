"""Replays a plan of prefetches: before call N of an operator, tensors that it uses go to the device.

Operators and tensors are numbered by the code that numbers them in a recording at level `touch`, so that
they are those of the recording that the plan was made from, if the program does the same again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from ..session import Session
from .memory import Storages

Plan = Mapping[tuple[str, int], Sequence[int]]
"""Name of an operator and ordinal of its call, from 1 on -> the tensors' ids."""

BYTES, CALLS = "uvm_prefetch.bytes", "uvm_prefetch.calls"
NOT_LIVE = "prefetches of the plan whose tensor does not live (yet): left out"
NOT_REACHED = "prefetches of the plan whose operator was not called so often: left out"
_COLUMNS = ("device", "ts", "dur", "name", "value", "unit")


class Driver(Protocol):
    """What moves managed memory."""

    def prefetch(self, address: int, size: int, device: int) -> None:
        """Begin to move bytes to a device; what is there already stays."""


class Prefetcher:
    """Hears of operators, and prefetches what the plan says.

    A call counts once it has touched a tensor, as only such calls are in the plan. So the prefetches of
    call N begin before the first call that can be it.

    Args:
        plan: the plan.
        driver: moves memory.
        device: to which.
        session: takes a `metric` of bytes and of calls for each operator with prefetches.
    """

    def __init__(self, plan: Plan, driver: Driver, device: int, session: Session) -> None:
        self._plan = plan
        self._driver = driver
        self._device = device
        self._session = session
        self._rows = session.rows("metric", _COLUMNS, launch_id=0)
        self._counted: Counter[str] = Counter()
        self._done: set[tuple[str, int]] = set()
        self._lock = threading.Lock()

    def operator_begins(self, name: str, storages: Storages) -> None:
        """Prefetch what the call that begins is to use."""
        with self._lock:
            key = (name, self._counted[name] + 1)
            if key not in self._plan or key in self._done:
                return
            self._done.add(key)
        self._prefetch(self._plan[key], storages)

    def operator_ends(self, name: str, touched: bool) -> None:  # noqa: FBT001 (one of two)
        """Count the call that has ended if it touched any tensor."""
        with self._lock:
            self._counted[name] += touched

    def finish(self) -> None:
        """Count what was not reached."""
        left = sum(len(ids) for key, ids in self._plan.items() if key not in self._done)
        if left:
            self._session.losses.count(NOT_REACHED, self._session.clock(), left)

    def _prefetch(self, object_ids: Sequence[int], storages: Storages) -> None:
        began = self._session.clock()
        calls = moved = 0
        for object_id in object_ids:
            stored = storages.live(object_id)
            if stored is None or stored.device != self._device:
                self._session.losses.count(NOT_LIVE, began)
                continue
            self._driver.prefetch(stored.address, stored.bytes, self._device)
            calls, moved = calls + 1, moved + stored.bytes
        spent = self._session.clock() - began
        self._rows.append((self._device, began, spent, BYTES, moved, "bytes"))
        self._rows.append((self._device, began, spent, CALLS, calls, ""))
