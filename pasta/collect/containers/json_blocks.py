"""Reading an array of objects inside a JSON document block by block, whole or damaged.

The objects are decoded in blocks of some megabytes, cut where one ends and the next begins, so that
memory does not depend on the size of the array. A sound block is decoded in one go. Only a block that
fails is taken apart: what can be repaired is repaired, what cannot is counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from pasta.collect.containers.json_repair import (
    repaired,
    without_infinities,
    without_trailing_commas,
)
from pasta.collect.containers.json_stream import BETWEEN, JsonStream

_OBJECT_BYTES_MAX = 64 << 20
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_INCOMPLETE = "incomplete"
_CLOSED = "closed"
_NESTED_MAX = 64
_END_OF_ARRAY = re.compile(rb"\}\s*\]\s*(?=\}\s*\Z|,\s*\"\w+\"\s*:|\Z)")
_JUST_BEGUN = re.compile(rb'\}\s*,\s*(?=\{\s*(?:"\w*"?\s*)?\Z)')
_UNTYPED = msgspec.json.Decoder(list[msgspec.Raw])

E = TypeVar("E")
T = TypeVar("T")


@dataclass(frozen=True)
class Elements(Generic[E]):
    """The objects of an array: how they are decoded, and told from one another.

    Attributes:
        decode: decodes a JSON array of them.
        start: matches where one may start, as `{"ph":`.
        following: matches the end of one and what stands before the next.
        what: what messages call one.
    """

    decode: Callable[[bytes], list[E]]
    start: re.Pattern[bytes]
    following: re.Pattern[bytes]
    what: str = "event"


def elements_with(keys: bytes, decode: Callable[[bytes], list[E]], what: str) -> Elements[E]:
    """Return elements that begin with one of `keys`, a pattern such as `ph|name`."""
    start = rb'\{\s*"(?:' + keys + rb')"\s*:'
    following = rb"\}\s*,\s*(?=" + start + rb")"
    return Elements(decode, re.compile(start), re.compile(following), what)


class ArrayBlocks(JsonStream):
    """A stream that reads arrays of objects in blocks.

    Attributes:
        kept: the number of objects read so far.
    """

    kept = 0

    def _read_array(self, elements: Elements[E]) -> Iterator[list[E]]:
        """Read objects up to the closing bracket, which `complete` tells of, or to the seam."""
        wanted = self._block_bytes
        while True:
            self._fill(wanted)
            if not self._next_byte():
                return
            seam = self._seam_in_buffer(elements)
            size = seam.start() + 1 if seam else self._block_size(elements)
            if size == 0:
                wanted = 2 * len(self._buffer)
                if wanted > 2 * _OBJECT_BYTES_MAX:
                    self._skip_to_next(elements)
                    wanted = self._block_bytes
                continue
            final = self._ended and seam is None
            next_start = self._offset + seam.end() if seam else None
            found, rest, closed = self._decode_block(
                elements, self._sound_text(self._buffer[:size])
            )
            self.kept += len(found)
            self._drop(size, put_back=rest)
            if found:
                yield found
            if closed:
                self.complete = True
                return
            if next_start is not None and self._ends_at_seam(next_start, rest):
                return
            if final:
                return
            wanted = len(self._buffer) + self._block_bytes if rest else self._block_bytes

    def _seam_in_buffer(self, elements: Elements[Any]) -> re.Match[bytes] | None:
        """Return the boundary at which somebody else goes on, once it is in the buffer."""
        del elements
        return None

    def _ends_at_seam(self, next_start: int, rest: bytes) -> bool:
        """Tell whether reading ends at the seam, which the block has reached but for `rest`."""
        del next_start, rest
        return True

    def _block_size(self, elements: Elements[Any]) -> int:
        """Return how much of the buffer can be decoded; 0 if not even one object is whole."""
        if self._ended:
            return len(self._buffer.rstrip(BETWEEN))
        return self._last_boundary(elements)

    def _decode_block(self, elements: Elements[E], block: bytes) -> tuple[list[E], bytes, bool]:
        """Decode the objects of `block`.

        Returns:
            The objects, the bytes after them, and whether the array was closed between the two.
        """
        text = b"[" + block + b"]"
        try:
            return _decode(elements, text), b"", False
        except msgspec.ValidationError:
            return self._decode_pieces(elements, block)
        except msgspec.DecodeError as error:
            closed = _decode_closed(partial(_decode, elements), text, error)
        if closed is not None:
            return *closed, True
        finite, count = without_infinities(block)
        if count:
            place = f"byte {self._offset} or later"
            self._losses.fault("inf or nan: read as null", count, where=place)
            return self._decode_block(elements, finite)
        tidy = without_trailing_commas(block) if self._ended else block
        if len(tidy) < len(block):
            return self._decode_block(elements, tidy)
        return self._decode_pieces(elements, block)

    def _decode_pieces(self, elements: Elements[E], block: bytes) -> tuple[list[E], bytes, bool]:
        """Decode a damaged block one by one; arguments and result are `_decode_block`'s."""
        gaps = [*elements.following.finditer(block), *_JUST_BEGUN.finditer(block)]
        starts = [0, *(gap.end() for gap in gaps)]
        ends = [*(gap.start() + 1 for gap in gaps), len(block)]
        found: list[E] = []
        first = last = 0
        while first < len(starts):
            piece = block[starts[first] : ends[last]]
            decoded, rest, problem = self._decode_piece(elements, piece)
            found += decoded
            if problem == _CLOSED:
                return found, rest + block[ends[last] :], True
            if problem == _INCOMPLETE:
                if last + 1 < len(ends) and last - first < _NESTED_MAX:
                    last += 1
                    continue
                if last + 1 == len(ends):
                    return found, block[starts[first] :], False
            if problem:
                place = self._place(block, starts[first])
                self._losses.fault(
                    f"damaged {elements.what}: left out", where=f"{place} ({problem})"
                )
                last = first
                if self._ended and first + 1 == len(starts):
                    end = _END_OF_ARRAY.search(block, starts[first])
                    if end is not None:
                        return found, block[end.end() :], True
            first = last = last + 1
        return found, b"", False

    def _place(self, block: bytes, at: int) -> str:
        """Return where byte `at` of a block lies in the file; in one that was repaired bytes have moved."""
        if self._buffer.startswith(block):
            return f"byte {self._offset + at}"
        return f"byte {self._offset} or later"

    def _decode_piece(self, elements: Elements[E], piece: bytes) -> tuple[list[E], bytes, str]:
        """Decode one object, repaired if need be.

        Returns:
            The objects, the bytes after them, and the problem: empty, `_INCOMPLETE`, `_CLOSED` or
            what is wrong.
        """
        problem = ""
        for repair in (bytes, repaired):
            text = repair(piece)
            if repair is repaired and text == piece:
                break
            array = b"[" + text + b"]"
            try:
                found = _decode(elements, array)
            except msgspec.ValidationError as error:
                return self._left_out(elements, array, str(error))
            except msgspec.DecodeError as error:
                closed = _decode_closed(partial(_decode, elements), array, error)
                if closed is None:
                    problem = problem or str(error)
                    continue
                found, rest, state = *closed, _CLOSED
            else:
                rest, state = b"", ""
            if repair is repaired:
                self._losses.fault(
                    f"{elements.what} with control characters, bad escapes, inf or nan: repaired",
                    where=f"byte {self._offset} or later",
                )
            return found, rest, state
        return [], b"", _INCOMPLETE if _ends_early(piece) else problem

    def _left_out(
        self, elements: Elements[E], array: bytes, problem: str
    ) -> tuple[list[E], bytes, str]:
        """Return what `_decode_piece` does of an object that is none of those wanted."""
        try:
            _UNTYPED.decode(array)
        except (msgspec.DecodeError, RecursionError) as error:
            closed = _decode_closed(_UNTYPED.decode, array, error)
            if closed is not None:
                self._losses.fault(
                    f"damaged {elements.what}: left out",
                    where=f"byte {self._offset} or later ({problem})",
                )
                return [], closed[1], _CLOSED
            if _ends_early(array[1:-1]):
                return [], b"", _INCOMPLETE
        return [], b"", problem

    def _last_boundary(self, elements: Elements[Any]) -> int:
        """Return where the last object that is followed by another ends; 0 if there is none."""
        buffer = self._buffer
        start = len(buffer)
        while (start := buffer.rfind(b"{", 0, start)) > 0:
            before = buffer[max(0, start - 256) : start].rstrip()
            if not before.endswith(b",") or not elements.start.match(buffer, start):
                continue
            before = before[:-1].rstrip()
            if before.endswith(b"}"):
                return buffer.rfind(b"}", 0, start) + 1
        return 0

    def _skip_to_next(self, elements: Elements[Any]) -> None:
        self._losses.fault(
            f"no end of an {elements.what} within {_OBJECT_BYTES_MAX >> 20} MiB: left out",
            where=f"byte {self._offset}",
        )
        following = elements.start.search(self._buffer, 1)
        self._drop(following.start() if following else len(self._buffer))


def _decode(elements: Elements[E], text: bytes) -> list[E]:
    try:
        return elements.decode(text)
    except RecursionError as error:
        raise msgspec.ValidationError("nested too deeply") from error


def _decode_closed(
    decode: Callable[[bytes], list[T]], text: bytes, error: Exception
) -> tuple[list[T], bytes] | None:
    """Decode `text` up to the bracket that closes the array, if `error` says that it has.

    Returns:
        The objects and the bytes after the bracket, less the last of `text`.
    """
    trailing = _TRAILING.search(str(error))
    if trailing is None:
        return None
    end = text.rfind(b"]", 0, int(trailing[1]) - 1) + 1
    try:
        return decode(text[:end]), text[end:-1]
    except msgspec.DecodeError:
        return None


def _ends_early(piece: bytes) -> bool:
    """Tell whether a piece of JSON is right as far as it goes, and goes on."""
    text = b"[" + piece
    try:
        _UNTYPED.decode(text)
    except RecursionError:
        return False
    except msgspec.DecodeError as error:
        # A number that ends after its sign, point or exponent is told as invalid, at the end.
        return "truncated" in str(error) or str(error).endswith(f"(byte {len(text)})")
    return False
