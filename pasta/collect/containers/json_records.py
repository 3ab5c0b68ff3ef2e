"""Reading a JSON document that holds several large arrays of records, at any depth.

What is asked for is read in the order of the file: an array of records in blocks, all else, if it is
small, as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from pasta.collect.containers.json_blocks import ArrayBlocks, Elements, elements_with
from pasta.collect.containers.json_stream import BLOCK_BYTES
from pasta.collect.containers.json_uniform import UniformRecords, uniform_records
from pasta.collect.losses import Losses
from pasta.errors import InputError

Path = tuple[str, ...]
"""The keys that lead to a value; arrays on the way add nothing."""

Decode = Callable[[bytes], list[Any]]
"""Decodes a JSON array of records."""

_FIRST_KEY = re.compile(rb'\{\s*"([^"\\]*)"\s*:')
_ANY_KEY = rb'[^"\\]*'
_KEY_BYTES_MAX = 1 << 10
_DEPTH_MAX = 16

E = TypeVar("E")


class RecordReader(ArrayBlocks):
    """The records and small values of one document.

    Args:
        chunks: the stream's bytes.
        enters: tells whether to go into the object, or array of objects, at a path.
        decoder: returns what decodes the array of records at a path; `None`: it is no such array.
        losses: where damage is counted.
        damage: what ended the stream early, filled by whoever feeds it.
        block_bytes: decode about so many bytes at once.

    Attributes:
        entered: how many times a path was entered.
    """

    def __init__(
        self,
        chunks: Iterator[bytes],
        enters: Callable[[Path], bool],
        decoder: Callable[[Path], Decode | None],
        losses: Losses,
        damage: Sequence[str] = (),
        *,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        super().__init__(chunks, losses, damage, block_bytes=block_bytes)
        self.entered: dict[Path, int] = {}
        self._enters = enters
        self._decoder = decoder

    def __iter__(self) -> Iterator[tuple[Path, Any]]:
        """Yield path and value; of records, a list of them or `UniformRecords`.

        Raises:
            InputError: the document is no JSON object.
        """
        first = self._first_byte()
        if first != b"{":
            raise InputError(f"{self._losses.source}: no JSON object (starts with {first!r})")
        yield from self._read_object(())

    def _read_object(self, path: Path) -> Iterator[tuple[Path, Any]]:
        """Read an object up to its end, which `complete` tells of."""
        self._drop(1)
        self.entered[path] = self.entered.get(path, 0) + 1
        self.complete = False
        while (key := self._read_key()) is not None:
            yield from self._read((*path, key))
            if not self.complete:
                return
            self.complete = False
        if self.complete:
            self._drop(1)

    def _read(self, path: Path) -> Iterator[tuple[Path, Any]]:
        """Read the value at a path; `complete` tells whether it has come to its end."""
        first = self._next_byte()
        entered = len(path) < _DEPTH_MAX and first in (b"{", b"[") and self._enters(path)
        decode = None if entered or first != b"[" else self._decoder(path)
        if entered and first == b"{":
            yield from self._read_object(path)
        elif entered:
            yield from self._read_objects(path)
        elif decode is not None:
            for records in self._read_records(path, decode):
                yield path, records
        else:
            yield path, self._read_value()
            self.complete = not self._ended or bool(self._buffer)

    def _read_objects(self, path: Path) -> Iterator[tuple[Path, Any]]:
        self._drop(1)
        self.complete = False
        while (byte := self._next_byte()) == b"{":
            yield from self._read_object(path)
            if not self.complete:
                return
        self.complete = byte == b"]"
        if self.complete:
            self._drop(1)

    def _read_records(self, path: Path, decode: Decode) -> Iterator[Any]:
        self._drop(1)
        self.complete = False
        if self._next_byte() == b"]":
            self._drop(1)
            self.complete = True
            yield []
            return
        self._fill(_KEY_BYTES_MAX)
        first = _FIRST_KEY.match(self._buffer)
        keys = re.escape(first[1]) if first else _ANY_KEY
        yield from self._read_array(elements_with(keys, decode, f"record of {path[-1]}"))

    def _decode_block(self, elements: Elements[E], block: bytes) -> tuple[Any, bytes, bool]:
        uniform: UniformRecords | None = uniform_records(block, elements.following)
        if uniform is not None:
            return uniform, b"", False
        return super()._decode_block(elements, block)
