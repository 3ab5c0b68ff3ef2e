"""Pages of an SQLite file and the trees that they form, whole or damaged.

The file format is read as it is documented (https://www.sqlite.org/fileformat.html), not through
SQLite: nothing that a file's schema says is executed, nothing is locked or written beside the
file, and a damaged page costs its own rows only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pasta.errors import InputError

MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_CHUNK_BYTES = 2 << 20
_DEPTH_MAX = 24
_INTERIOR, _LEAF = 5, 13

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]
Damage = Callable[[int, int], None]
"""Called with how many pages cannot be used, and the number of the first."""


class Pages:
    """The pages of one file, numbered from 1.

    Args:
        file: the file.
        name: what messages call it.

    Attributes:
        size: of a page, in bytes.
        usable: how many of them hold content.
        count: how many whole pages there are.
        told: how many there should be; 0: the file does not say.
        encoding: of texts, as Python names it.

    Raises:
        InputError: the file is no SQLite file, or ends within its first page.
    """

    def __init__(self, file: Path, name: str) -> None:
        self._file = file.open("rb", buffering=0)
        header = self._file.read(_HEADER_BYTES)
        if len(header) < _HEADER_BYTES or not header.startswith(MAGIC):
            self.close()
            raise InputError(f"{name}: is no SQLite file; check that it was copied whole")
        self.size = int.from_bytes(header[16:18], "big")
        self.size = 1 << 16 if self.size == 1 else self.size
        self.usable = self.size - header[20]
        self.encoding = {2: "utf-16-le", 3: "utf-16-be"}.get(header[59], "utf-8")
        valid = header[24:28] == header[92:96]
        self.told = int.from_bytes(header[28:32], "big") if valid else 0
        damaged = self.size < 512 or self.size & (self.size - 1) or self.usable < 480
        self.count = 0 if damaged else os.fstat(self._file.fileno()).st_size // self.size
        if self.count == 0:
            self.close()
            raise InputError(
                f"{name}: the SQLite file ends early or is damaged before its first table; nothing"
                " can be read"
            )

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def read(self, numbers: Numbers) -> Bytes:
        """Return pages as rows of bytes; what the disk refuses is zeros.

        Args:
            numbers: of pages, each from 1 to `count`.
        """
        content = np.zeros((len(numbers), self.size), dtype=np.uint8)
        seams = np.flatnonzero(np.diff(numbers) != 1) + 1
        for run in np.split(np.arange(len(numbers)), seams) if len(numbers) else ():
            try:
                self._file.seek((int(numbers[run[0]]) - 1) * self.size)
                self._file.readinto(content[run[0] : run[-1] + 1].data)
            except OSError:
                continue
        return content

    def leaves(self, root: int, damage: Damage) -> Iterator[tuple[Numbers, Bytes]]:
        """Yield the leaf pages of a table's tree in order, some megabytes at a time.

        Args:
            root: page at which the tree begins.
            damage: told of pages that are absent, of another kind, or met twice.
        """
        seen = np.zeros(self.count + 1, dtype=np.bool_)
        yield from self._walk(np.array([root], dtype=np.int64), seen, damage, 0)

    def _walk(
        self, level: Numbers, seen: NDArray[np.bool_], damage: Damage, depth: int
    ) -> Iterator[tuple[Numbers, Bytes]]:
        step = max(_CHUNK_BYTES // self.size, 1)
        for first in range(0, len(level), step):
            chunk = level[first : first + step]
            numbers = self._unseen(chunk, seen)
            content = self.read(numbers)
            kinds = content[np.arange(len(numbers)), header_at(numbers)]
            leaf = kinds == _LEAF
            interior = (kinds == _INTERIOR) & (depth < _DEPTH_MAX)
            lost = len(chunk) - int(leaf.sum()) - int(interior.sum())
            if lost:
                good = set(numbers[leaf | interior].tolist())
                damage(lost, next((page for page in chunk.tolist() if page not in good), 0))
            if leaf.all():
                yield numbers, content
            elif leaf.any():
                yield numbers[leaf], content[leaf]
            if interior.any():
                below = self._children(numbers[interior], content[interior])
                yield from self._walk(below, seen, damage, depth + 1)

    def _unseen(self, numbers: Numbers, seen: NDArray[np.bool_]) -> Numbers:
        """Return those of `numbers` that are pages of the file and are met for the first time."""
        numbers = numbers[(numbers >= 1) & (numbers <= self.count)]
        first = np.zeros(len(numbers), dtype=np.bool_)
        first[np.unique(numbers, return_index=True)[1]] = True
        numbers = numbers[first & ~seen[numbers]]
        seen[numbers] = True
        return numbers

    def _children(self, numbers: Numbers, content: Bytes) -> Numbers:
        found = []
        for header, page in zip(header_at(numbers).tolist(), content, strict=True):
            cells = min(_big_endian(page, header + 3, 2), (self.usable - header - 12) // 2)
            pointers = page[header + 12 : header + 12 + 2 * cells].view(">u2").astype(np.int64)
            pointers = np.append(pointers[pointers <= self.usable - 4], header + 8)
            bytes_of_number = page[pointers[:, None] + np.arange(4)]
            found.append(bytes_of_number.reshape(-1).view(">u4").astype(np.int64))
        return np.concatenate(found)


def header_at(numbers: Numbers) -> Numbers:
    """Return where in each page its tree's header begins: after the file's own on page 1."""
    return np.where(numbers == 1, _HEADER_BYTES, 0)


def _big_endian(page: NDArray[Any], at: int, size: int) -> int:
    return int.from_bytes(page[at : at + size].tobytes(), "big")
