"""Items that wait for something that is met later, on disk where they are many."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, TypeVar

HELD_MAX = 1 << 14

T = TypeVar("T")


class Waiting(Generic[T]):
    """Items by what they wait for, those of one thing in the order in which they came.

    Args:
        folder: for a file of what memory does not hold; made once that is needed.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "waiting"
        self._held: dict[int, list[T]] = {}
        self._count = 0
        self._written: dict[int, list[int]] = {}

    def add(self, key: int, item: T) -> None:
        """Add an item that waits for `key`."""
        self._held.setdefault(key, []).append(item)
        self._count += 1
        if self._count >= HELD_MAX:
            self._write()

    def pop(self, key: int) -> Iterator[T]:
        """Return the items that wait for `key`, which wait no more."""
        written = self._written.pop(key, [])
        held = self._held.pop(key, [])
        self._count -= len(held)
        return self._items(written, held)

    def rest(self) -> Iterator[T]:
        """Yield all items, in order of what they wait for."""
        for key in sorted({*self._held, *self._written}):
            yield from self.pop(key)

    def _items(self, written: list[int], held: list[T]) -> Iterator[T]:
        for place in written:
            with self._file.open("rb") as file:
                file.seek(place)
                items: list[T] = pickle.load(file)  # noqa: S301 -- written by this process
            yield from items
        yield from held

    def _write(self) -> None:
        """Write half of the items, the longest lists first: what called the most ends last."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab") as file:
            for key in sorted(self._held, key=lambda key: len(self._held[key]), reverse=True):
                self._written.setdefault(key, []).append(file.tell())
                items = self._held.pop(key)
                pickle.dump(items, file, pickle.HIGHEST_PROTOCOL)
                self._count -= len(items)
                if self._count <= HELD_MAX // 2:
                    return
