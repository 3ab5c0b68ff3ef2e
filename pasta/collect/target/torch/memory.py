"""Tensor storages: who lives where, from first sight to the end that a weak reference tells."""

# ruff: noqa: SLF001 - PyTorch has no public names for what is needed here

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from ..rows import Losses, Rows

MEMORY_COLUMNS = (
    "tid",
    "device",
    "ts",
    "event",
    "address",
    "bytes",
    "object_id",
    "total_reserved",
)
HOST = -1
WITHOUT_STORAGE = "tensors without a storage (sparse, meta, fake): no memory or touch rows"
BEFORE = "storages allocated before or between recorded operators: allocated at first sight"


class Stored(NamedTuple):
    """One storage for as long as it keeps its size and place."""

    object_id: int
    device: int
    address: int
    bytes: int
    reference: weakref.ref[Any]


class Storages:
    """The storages seen so far.

    Args:
        rows: takes the `memory` rows.
        losses: counts what has no storage, and what was allocated unseen.
        clock: the trace's clock, in ns.
        reserved: bytes that the allocator of a `torch.device` holds; `None`: unknown.
    """

    def __init__(
        self,
        rows: Rows,
        losses: Losses,
        clock: Callable[[], int],
        reserved: Callable[[Any], int | None],
    ) -> None:
        self._rows = rows
        self._losses = losses
        self._clock = clock
        self._reserved = reserved
        self._live: dict[int, Stored] = {}
        self._keys: dict[int, int] = {}
        self._ids = itertools.count(1)
        self._lock = threading.RLock()

    def storage(self, tensor: Any) -> Any | None:
        """Return the storage of `tensor`, or `None`, counted, where it has none in memory."""
        try:
            storage = tensor.untyped_storage()
            if storage.device.type != "meta" and (storage.data_ptr() or not storage.nbytes()):
                return storage
        except (NotImplementedError, RuntimeError):
            pass  # how sparse tensors and some subclasses say that they have none
        self._losses.count(WITHOUT_STORAGE, self._clock())
        return None

    def existing(self, storage: Any) -> Stored | None:
        """Return what is known of `storage`, which is there already; `None`: it has no byte."""
        with self._lock:
            now = self._clock()
            known = self._known(storage, now)
            if known is None and storage.nbytes():
                self._losses.count(BEFORE, now)
                return self._allocate(storage, now)
            return known

    def result(self, storage: Any, now: int) -> Stored | None:
        """Return what is known of `storage`, allocated at `now` unless known before."""
        with self._lock:
            known = self._known(storage, now)
            if known is None and storage.nbytes():
                return self._allocate(storage, now)
            return known

    def live(self, object_id: int) -> Stored | None:
        """Return what is known of the storage of an id; `None`: it does not live, or not yet."""
        with self._lock:
            return self._live.get(self._keys.get(object_id, 0))

    def close(self) -> None:
        """Forget everything; what still lives gets no release."""
        self._live.clear()
        self._keys.clear()

    def _known(self, storage: Any, now: int) -> Stored | None:
        """Look `storage` up; one that was resized or moved is released and unknown again."""
        known = self._live.get(storage._cdata)
        if known is None:
            return None
        if known.bytes == storage.nbytes() and known.address == storage.data_ptr():
            return known
        self._release(storage._cdata, known.object_id, now)
        return None

    def _allocate(self, storage: Any, now: int) -> Stored:
        key = storage._cdata
        object_id = next(self._ids)
        reference = weakref.ref(storage, lambda _gone: self._release(key, object_id, self._clock()))
        device = HOST if storage.device.type == "cpu" else storage.device.index or 0
        stored = Stored(object_id, device, storage.data_ptr(), storage.nbytes(), reference)
        self._live[key] = stored
        self._keys[object_id] = key
        self._append(stored, "allocate", now, self._reserved(storage.device))
        return stored

    def _release(self, key: int, object_id: int, now: int) -> None:
        stored = self._live.get(key)
        if stored is None or stored.object_id != object_id:
            return
        del self._live[key]
        self._keys.pop(object_id, None)
        self._append(stored, "release", now, None)

    def _append(self, stored: Stored, event: str, ts: int, reserved: int | None) -> None:
        tid = threading.get_native_id()
        place = (stored.address, stored.bytes, stored.object_id)
        self._rows.append((tid, stored.device, ts, event, *place, reserved))
