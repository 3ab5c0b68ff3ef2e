"""Reading messages in the wire format of protocol buffers, without classes generated for them.

A message is a sequence of fields, each a number, a wire type and a value. Messages too large to hold
are read from a file piece by piece. Source: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import IO, NamedTuple

VARINT, FIXED64, LENGTH, GROUP, END_GROUP, FIXED32 = range(6)

MESSAGE_BYTES_MAX = 64 << 20
"""Of a message that is held as a whole."""

_HELD = 1 << 16
_WINDOW = 1 << 20
_HEAD_MAX = 20
_VARINT_MAX = 10
_NUMBER_MAX = 1 << 29
_GROUPS_MAX = 32
_ONE_BYTE_TAG, _MORE = 1 << 3, 1 << 7
_MASK = (1 << 64) - 1
_SIGN = 1 << 63


class WireError(ValueError):
    """Bytes are no message; what was read before them is sound."""


class Place(NamedTuple):
    """Where in a file the bytes of a large field lie."""

    start: int
    end: int


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield number, wire type and value of the fields of a message.

    Values are bytes for `LENGTH` and unsigned integers for `VARINT`, `FIXED64` and `FIXED32`.
    Groups are skipped.

    Raises:
        WireError: at the first byte that cannot be.
    """
    at, end = 0, len(data)
    while at < end:
        tag = data[at]
        if _ONE_BYTE_TAG <= tag < _MORE:  # as most are
            number, wire, at = tag >> 3, tag & 7, at + 1
        else:
            number, wire, at = _tag(data, at)
        if wire == VARINT:
            value, at = _varint(data, at)
            yield number, wire, value
        elif wire == LENGTH:
            if at < end and data[at] < _MORE:
                size, at = data[at], at + 1
            else:
                size, at = _varint(data, at)
            if size > end - at:
                raise WireError("a field that is longer than its message")
            yield number, wire, data[at : at + size]
            at += size
        elif wire == GROUP:
            at = _after_group(data, at)
        else:
            size = _fixed_size(wire)
            if size > end - at:
                raise WireError("a field that is longer than its message")
            yield number, wire, int.from_bytes(data[at : at + size], "little")
            at += size


def by_number(data: bytes) -> dict[int, list[int | bytes]]:
    """Return the values of the fields of a message by number, in their order.

    Raises:
        WireError: the bytes are no message.
    """
    found: dict[int, list[int | bytes]] = {}
    for number, _, value in fields(data):
        found.setdefault(number, []).append(value)
    return found


def signed(value: int | bytes) -> int:
    """Return the value of an `int64` or `int32` field; 0 where it is none."""
    if isinstance(value, bytes):
        return 0
    return value - (1 << 64) if value & _SIGN else value


def unsigned(value: int | bytes) -> int:
    """Return the value of an unsigned field; 0 where it is none."""
    return 0 if isinstance(value, bytes) else value


def number(value: int | bytes) -> float:
    """Return the value of a `double` field; 0 where it is none."""
    if isinstance(value, bytes):
        return 0.0
    return float(struct.unpack("<d", value.to_bytes(8, "little"))[0])


def text(value: int | bytes) -> str:
    """Return the value of a `string` field; empty where it is none."""
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def message(value: int | bytes) -> bytes:
    """Return the value of a field that is a message; an empty one where it is none."""
    return value if isinstance(value, bytes) else b""


def integers(value: int | bytes) -> list[int]:
    """Return the values of a repeated field of varints, packed or not.

    Raises:
        WireError: packed bytes are no varints.
    """
    if not isinstance(value, bytes):
        return [value]
    found, at = [], 0
    while at < len(value):
        item, at = _varint(value, at)
        found.append(item)
    return found


class MessageStream:
    """The messages that one stream repeats at its outermost level.

    Args:
        chunks: the stream's bytes.
        damage: what ended the stream early, filled by whoever feeds it.

    Attributes:
        kept: the number of messages read so far.
        cut: why and where reading stopped before the end; empty if it did not.
    """

    def __init__(self, chunks: Iterator[bytes], damage: Sequence[str] = ()) -> None:
        self.kept = 0
        self.cut = ""
        self._chunks = chunks
        self._damage = damage
        self._buffer = b""
        self._at = 0
        self._dropped = 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield number and bytes of each message; other fields are skipped."""
        while True:
            self._fill(_HEAD_MAX)
            if self._at == len(self._buffer):
                self.cut = "; ".join(self._damage)
                return
            try:
                number, wire, at = _tag(self._buffer, self._at)
                size, at = self._size(wire, at)
            except WireError as error:
                self._stop(str(error))
                return
            head = at - self._at
            self._fill(head + size)
            if len(self._buffer) - self._at < head + size:
                self._stop("the file ends early")
                return
            start = self._at + head
            self._at = start + size
            if wire == LENGTH:
                self.kept += 1
                yield number, self._buffer[start : start + size]

    def _size(self, wire: int, at: int) -> tuple[int, int]:
        if wire == LENGTH:
            size, at = _varint(self._buffer, at)
            if size > MESSAGE_BYTES_MAX:
                raise WireError(f"a message of {size} bytes")
            return size, at
        if wire == VARINT:
            return 0, _varint(self._buffer, at)[1]
        return _fixed_size(wire), at

    def _stop(self, problem: str) -> None:
        cause = "; ".join(self._damage) or problem
        self.cut = f"{cause}: cut at byte {self._dropped + self._at}"

    def _fill(self, size: int) -> None:
        held = len(self._buffer) - self._at
        if held >= size:
            return
        parts = [self._buffer[self._at :]]
        self._dropped += self._at
        self._at = 0
        while held < size:
            chunk = next(self._chunks, b"")
            if not chunk:
                break
            parts.append(chunk)
            held += len(chunk)
        self._buffer = b"".join(parts)


class MessageFile:
    """A file that is one message, of any size.

    Args:
        file: the file.
        size: its size in bytes.

    Attributes:
        cut: why and where a field that should be there is not; empty if all are.
    """

    def __init__(self, file: IO[bytes], size: int) -> None:
        self.whole = Place(0, size)
        self.cut = ""
        self._file = file

    def fields(self, value: int | bytes | Place) -> Iterator[tuple[int, int, int | bytes | Place]]:
        """Yield the fields as the function `fields` does, large ones as their places.

        Args:
            value: a message, or where one lies; what is none has no fields.

        Raises:
            WireError: as there, of a message that is held.
        """
        if isinstance(value, Place):
            yield from self._fields_at(value)
        elif isinstance(value, bytes):
            yield from fields(value)

    def read(self, place: Place) -> bytes:
        """Return the bytes of a field.

        Raises:
            WireError: they are too many to hold.
        """
        if place.end - place.start > MESSAGE_BYTES_MAX:
            raise WireError(f"a message of {place.end - place.start} bytes")
        self._file.seek(place.start)
        return self._file.read(place.end - place.start)

    def _fields_at(self, place: Place) -> Iterator[tuple[int, int, int | bytes | Place]]:
        at, end = place.start, min(place.end, self.whole.end)
        window, base = b"", at
        while at < end:
            if at - base + _HELD + _HEAD_MAX > len(window) and base + len(window) < end:
                self._file.seek(at)
                window, base = self._file.read(min(_WINDOW, end - at)), at
            try:
                number, wire, inside = _tag(window, at - base)
                size, inside = _value_size(window, wire, inside)
            except WireError as error:
                self._stop(f"{error}: cut at byte {at}")
                return
            start = base + inside
            at = start + size
            if at > end:
                self._stop(f"the file ends early: cut at byte {end}")
                if wire == LENGTH and size > _HELD:
                    yield number, wire, Place(start, end)
                return
            held = window[inside : inside + size]
            if wire == LENGTH:
                yield number, wire, held if size <= _HELD else Place(start, at)
            elif wire != GROUP:
                value = _varint(held, 0)[0] if wire == VARINT else int.from_bytes(held, "little")
                yield number, wire, value

    def _stop(self, cut: str) -> None:
        self.cut = self.cut or cut


def _value_size(window: bytes, wire: int, at: int) -> tuple[int, int]:
    """Return how many bytes a value has, and where it begins."""
    if wire == LENGTH:
        return _varint(window, at)
    if wire == VARINT:
        return _varint(window, at)[1] - at, at
    if wire == GROUP:
        return _after_group(window, at) - at, at
    return _fixed_size(wire), at


def _tag(data: bytes, at: int) -> tuple[int, int, int]:
    tag, at = _varint(data, at)
    if not 0 < tag >> 3 < _NUMBER_MAX:
        raise WireError("a field without a number")
    return tag >> 3, tag & 7, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at a byte, and where it ends."""
    try:
        byte = data[at]
        if byte < _MORE:
            return byte, at + 1
        value, shift = byte & 0x7F, 7
        for place in range(at + 1, at + _VARINT_MAX):
            byte = data[place]
            value |= (byte & 0x7F) << shift
            if byte < _MORE:
                return value & _MASK, place + 1
            shift += 7
    except IndexError:
        raise WireError("the message ends early") from None
    raise WireError("a number of more than 10 bytes")


def _fixed_size(wire: int) -> int:
    if wire == FIXED64:
        return 8
    if wire == FIXED32:
        return 4
    raise WireError("a field of no known type")


def _after_group(data: bytes, at: int) -> int:
    """Return where a group ends that begins at a byte."""
    depth = 1
    while depth:
        _, wire, at = _tag(data, at)
        if wire == GROUP:
            depth += 1
        elif wire == END_GROUP:
            depth -= 1
        else:
            size, at = _value_size(data, wire, at)
            at += size
        if at > len(data) or depth > _GROUPS_MAX:
            raise WireError("a group without an end")
    return at
