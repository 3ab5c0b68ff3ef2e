"""Lists in a large JSON document set aside on disk, so that the rest of it can be read as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

_KEPT_BYTES = 1 << 10
_PLACE = b'{"aside":[%d,%d]}'
_EMPTY = re.compile(rb"\[\s*\]")


class Place(NamedTuple):
    """The bytes of a list in the file of those that are set aside."""

    start: int
    stop: int


class _Reference(msgspec.Struct):
    aside: Place


class Aside:
    """Lists set aside in one file.

    Args:
        file: for their texts.
        ends: the keys whose lists are set aside, whatever object they are in, and what such a list ends in:
            a pattern that nothing within it matches.
    """

    def __init__(self, file: Path, ends: Mapping[bytes, bytes]) -> None:
        self._file = file
        names = b"|".join(map(re.escape, ends))
        self._key = re.compile(rb'(?<!\\)"(' + names + rb')"\s*:\s*(?=\[)')
        self._ends = {key: re.compile(end) for key, end in ends.items()}
        self._size = 0

    def rest_of(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield a document with references in place of the lists, which are written."""
        buffer = b""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("wb") as file:
            while True:
                found = self._key.search(buffer)
                if found is None:
                    settled = max(len(buffer) - _KEPT_BYTES, 0)
                    yield buffer[:settled]
                    chunk = next(chunks, b"")
                    if not chunk:
                        yield buffer[settled:]
                        return
                    buffer = buffer[settled:] + chunk
                    continue
                yield buffer[: found.end()]
                start = self._size
                for piece, rest in _up_to(self._ends[found[1]], buffer[found.end() :], chunks):
                    self._size += file.write(piece)
                    buffer = rest
                yield _PLACE % (start, self._size)

    def place_of(self, value: Raw) -> Place | None:
        """Return where the list is that a value refers to; `None`: it refers to none."""
        try:
            place = msgspec.json.decode(value, type=_Reference).aside
        except msgspec.MsgspecError:
            return None
        return place if 0 <= place.start < place.stop <= self._size else None

    def blocks(
        self, place: Place, boundary: re.Pattern[bytes], block_bytes: int
    ) -> Iterator[bytes]:
        """Yield the text between a list's brackets, block by block.

        Args:
            place: of the list.
            boundary: matches what stands around the comma between two items, which is its first group.
            block_bytes: about how large blocks are.
        """
        with self._file.open("rb") as file:
            file.seek(place.start + 1)
            left = place.stop - place.start - 1
            text = b""
            while left or text:
                read = file.read(min(left, max(block_bytes, _KEPT_BYTES)))
                left -= len(read)
                text += read
                found = boundary.search(text, block_bytes)
                if found is not None:
                    yield text[: found.start(1)]
                    text = text[found.end(1) :]
                elif not left:
                    yield _without_end(text.rstrip(), boundary)
                    return


def _without_end(text: bytes, boundary: re.Pattern[bytes]) -> bytes:
    """Return the end of a list without its bracket; of one that is cut, without its last item."""
    if text.endswith(b"]"):
        return text[:-1]
    return text[: max((found.start(1) for found in boundary.finditer(text)), default=0)]


def _up_to(
    end: re.Pattern[bytes], buffer: bytes, chunks: Iterator[bytes]
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the pieces of a list, and after the last of them what follows it."""
    while len(buffer) < _KEPT_BYTES and (chunk := next(chunks, b"")):
        buffer += chunk
    found: Any = _EMPTY.match(buffer) or end.search(buffer)
    while found is None:
        settled = max(len(buffer) - _KEPT_BYTES, 0)
        yield buffer[:settled], b""
        chunk = next(chunks, b"")
        buffer = buffer[settled:] + chunk
        if not chunk:
            yield buffer, b""
            return
        found = end.search(buffer)
    yield buffer[: found.end()], buffer[found.end() :]
