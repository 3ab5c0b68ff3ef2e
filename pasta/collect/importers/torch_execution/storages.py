"""Which storages operators read and write, and from when to when each storage was seen.

A trace numbers storages by their place in memory, so one number stands for several in turn. A
result in a storage that the operator was not given, and that was not made inside it, is a new one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from pasta.collect.importers.torch_execution.nodes import Operation, Tensor, extent
from pasta.collect.importers.torch_execution.schemas import Signature, signature
from pasta.collect.importers.torch_execution.waiting import Waiting
from pasta.collect.target.torch.views import View


class Storage:
    """One storage for as long as it was the same.

    Attributes:
        object_id: its number.
        device: ordinal; -1 is the host.
        born: the node that made it; 0: it was there before.
        bytes: the least that it has to hold what was seen of it.
    """

    __slots__ = ("born", "bytes", "device", "object_id")

    def __init__(self, object_id: int, device: int, born: int) -> None:
        self.object_id = object_id
        self.device = device
        self.born = born
        self.bytes = 0


class Touch(NamedTuple):
    """What one operator, with all that it called, did to one storage."""

    object_id: int
    device: int
    read: tuple[View, ...]
    written: tuple[View, ...]


class Touches:
    """The touches of operators, given in order of their ends.

    What an operator called counts as its own: only operators that none called have touches.

    Args:
        waiting: where touches wait for what called their operator.

    Attributes:
        sizes: bytes of each storage that was seen, in order of their numbers, which count from 1.
        inexact: how many views of unknown strides there were.
    """

    def __init__(self, waiting: Waiting[tuple[int, list[Touch]]]) -> None:
        self.sizes = array("q")
        self.inexact = 0
        self._current: dict[int, Storage] = {}
        self._waiting = waiting
        self._ranges: set[int] = set()

    def add(self, operation: Operation) -> Iterator[tuple[int, list[Touch]]]:
        """Take a node; yield (node, touches) of the operators that none called, once known."""
        inside = self._waiting.pop(operation.id)
        if not operation.schema:
            self._ranges.add(operation.id)
            yield from inside
            return
        touches = [touch for _, of_one in inside for touch in of_one]
        touches = self._merged(touches + self._own(operation))
        if operation.parent in self._ranges:
            yield operation.id, touches
        else:
            self._waiting.add(operation.parent, (operation.id, touches))

    def rest(self) -> Iterator[tuple[int, list[Touch]]]:
        """Yield what is left of operators whose caller is not in the trace."""
        yield from self._waiting.rest()

    def _own(self, operation: Operation) -> list[Touch]:
        called = signature(operation.schema)
        given = [(tensor, self._given(tensor)) for tensor in operation.inputs]
        known = {storage.object_id for _, storage in given}
        made: list[Touch] = []
        aliased = False
        for tensor in operation.outputs:
            storage = self._returned(tensor, operation, known)
            if storage.object_id in known:
                aliased = True
            else:
                written = (tensor.view,) if called.writes_results else ()
                made.append(Touch(storage.object_id, storage.device, (), written))
        if called.metadata_only or (aliased and not made and not called.mutates):
            return []
        return [_used(called, tensor, storage) for tensor, storage in given] + made

    def _given(self, tensor: Tensor) -> Storage:
        storage = self._current.get(tensor.storage)
        if storage is None:
            storage = self._new(tensor, 0)
        self._widen(storage, tensor)
        return storage

    def _returned(self, tensor: Tensor, operation: Operation, known: set[int]) -> Storage:
        storage = self._current.get(tensor.storage)
        if storage is None or (storage.object_id not in known and storage.born <= operation.id):
            storage = self._new(tensor, operation.id)
        self._widen(storage, tensor)
        return storage

    def _new(self, tensor: Tensor, born: int) -> Storage:
        storage = Storage(len(self.sizes) + 1, tensor.device, born)
        self.sizes.append(0)
        self._current[tensor.storage] = storage
        return storage

    def _widen(self, storage: Storage, tensor: Tensor) -> None:
        storage.bytes = max(storage.bytes, extent(tensor.view))
        self.sizes[storage.object_id - 1] = storage.bytes
        self.inexact += not tensor.exact

    def _merged(self, touches: list[Touch]) -> list[Touch]:
        """Return one touch for each storage of any size that is touched, with each view once."""
        views: dict[tuple[int, int], tuple[dict[View, None], dict[View, None]]] = {}
        for touch in touches:
            if self.sizes[touch.object_id - 1] and (touch.read or touch.written):
                read, written = views.setdefault((touch.object_id, touch.device), ({}, {}))
                read.update(dict.fromkeys(touch.read))
                written.update(dict.fromkeys(touch.written))
        return [Touch(*of, (*read,), (*written,)) for of, (read, written) in views.items()]


def _used(called: Signature, tensor: Tensor, storage: Storage) -> Touch:
    view = (tensor.view,)
    return Touch(
        storage.object_id,
        storage.device,
        view if called.reads(tensor.position) else (),
        view if called.writes(tensor.position) else (),
    )
