"""Reading a large JSON object that holds an array of events, whole or damaged.

The events are decoded in blocks of some megabytes, cut where one event ends and the next begins,
so that memory does not depend on the size of the file. A sound block is decoded in one go. Only a
block that fails is taken apart: what can be repaired is repaired, what cannot is counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from pasta.collect.containers.json_repair import repaired, valid_utf8, without_infinities
from pasta.collect.losses import Losses
from pasta.errors import InputError

BLOCK_BYTES = 4 << 20
_EVENT_BYTES_MAX = 64 << 20
_METADATA_BYTES_MAX = 16 << 20

_EVENT_KEYS = rb"ph|cat|name|pid|tid|ts|dur|args|id|s|bp"
_NEXT_EVENT = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:' + _EVENT_KEYS + rb')"\s*:)')
_EVENT_START = re.compile(rb'\{\s*"(?:' + _EVENT_KEYS + rb')"\s*:')
_BETWEEN = b" \t\r\n,"
_SEPARATOR = re.compile(rb"[\s,]*")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|["{}\[\]]', re.DOTALL)
_SCALAR = re.compile(rb"[^\s,\]}]*")
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")

_INCOMPLETE = "incomplete"
_CLOSED = "closed"
_NESTED_MAX = 64

E = TypeVar("E")


class EventReader(Generic[E]):
    """The events of one stream, block by block.

    Args:
        chunks: the stream's bytes.
        decode: decodes a JSON array of events.
        losses: where damage is counted.
        damage: what ended the stream early, filled by whoever feeds it.
        array: key of the array; a stream that is a bare array is read too.
        block_bytes: decode about so many bytes at once.
        start: the byte at which the chunks start.
        stop: end at the first event boundary at or after this byte; `None`: read to the end.

    Attributes:
        metadata: every other key of the object, filled while the events are read.
        kept: the number of events read so far.
        complete: whether the outermost value has been read to its end.
        seam: the byte of the first event that is left to somebody else, if reading ended there.
    """

    def __init__(
        self,
        chunks: Iterator[bytes],
        decode: Callable[[bytes], list[E]],
        losses: Losses,
        damage: Sequence[str] = (),
        *,
        array: str = "traceEvents",
        block_bytes: int = BLOCK_BYTES,
        start: int = 0,
        stop: int | None = None,
    ) -> None:
        self.metadata: dict[str, Any] = {}
        self.kept = 0
        self.complete = False
        self.seam: int | None = None
        self._bare = self._found = self._handed_over = False
        self._stop = stop
        self._chunks = chunks
        self._decode = decode
        self._losses = losses
        self._damage = damage
        self._array = array
        self._block_bytes = block_bytes
        self._buffer = b""
        self._offset = start
        self._ended = False

    def __iter__(self) -> Iterator[list[E]]:
        first = self._next_byte()
        if first == b"\xef" and self._buffer.startswith(b"\xef\xbb\xbf"):
            self._drop(3)
            first = self._next_byte()
        if first not in (b"{", b"["):
            raise InputError(f"{self._losses.source}: not JSON (starts with {first!r})")
        self._drop(1)
        self._bare = self._found = first == b"["
        yield from self._read_array() if self._bare else self._read_object()
        if self.complete and not self._found:
            raise InputError(f"{self._losses.source}: JSON without '{self._array}'; not a trace")

    def go_on(self) -> Iterator[list[E]]:
        """Read on from the seam to the end, in place of whoever was to do it."""
        self.seam = self._stop = None
        self._handed_over = False
        yield from self._read_array()
        if self.complete and not self._bare:
            self.complete = False
            yield from self._read_object()

    def start_after(self, byte: int, *, bare: bool) -> Iterator[list[E]]:
        """Read from the first event boundary at or after `byte` to the end.

        `seam` is where the first event starts, `None` where no boundary is found.

        Args:
            byte: a place within the array.
            bare: whether the stream is a bare array.
        """
        self._bare = bare
        while self._offset + len(self._buffer) < byte:
            self._drop(len(self._buffer))
            if not self._fill(self._block_bytes):
                return
        self._drop(byte - self._offset)
        while not (boundary := _NEXT_EVENT.search(self._buffer)):
            if not self._fill(len(self._buffer) + self._block_bytes):
                return
        self._drop(boundary.end())
        seam = self._offset
        yield from self.go_on()
        self.seam = seam

    @property
    def cut(self) -> str:
        """Why and where reading stopped before the end of the outermost value; empty if not."""
        if self.complete or self._handed_over:
            return ""
        unexpected = self._buffer[:1]
        if unexpected in b"{,":
            cause = "; ".join(self._damage) or "the file ends early"
            return f"{cause}: cut at byte {self._offset + len(self._buffer)}"
        return f"unexpected {unexpected!r}: cut at byte {self._offset}"

    def _read_object(self) -> Iterator[list[E]]:
        """Read keys and values of the outermost object up to its end."""
        while True:
            byte = self._next_byte()
            if byte == b"}":
                self.complete = True
                return
            if byte != b'"':
                return
            key = self._read_value()
            if self._next_byte() != b":":
                return
            self._drop(1)
            if self._next_byte() == b"[" and key == self._array:
                self._drop(1)
                self._found = True
                yield from self._read_array()
                if not self.complete:
                    return
                self.complete = False
            else:
                self.metadata[str(key)] = self._read_value()

    def _read_array(self) -> Iterator[list[E]]:
        """Read events up to the closing bracket, which `complete` tells of, or to the seam."""
        wanted = self._block_bytes
        while True:
            self._fill(wanted)
            if not self._next_byte():
                return
            boundary = self._last_shared_boundary()
            size = boundary.start() + 1 if boundary else self._block_size()
            if size == 0:
                wanted = 2 * len(self._buffer)
                if wanted > 2 * _EVENT_BYTES_MAX:
                    self._skip_to_next_event()
                    wanted = self._block_bytes
                continue
            final = self._ended and boundary is None
            seam = self._offset + boundary.end() if boundary else None
            block = self._sound_text(self._buffer[:size])
            events, rest, closed = self._decode_block(block)
            self.kept += len(events)
            self._drop(size, put_back=rest)
            if events:
                yield events
            if closed:
                self.complete = True
                return
            if seam is not None:
                self._stop = None
                if not rest:
                    self.seam = seam
                    self._handed_over = True
                    return
            if final:
                return
            wanted = len(self._buffer) + self._block_bytes if rest else self._block_bytes

    def _block_size(self) -> int:
        """Return how much of the buffer can be decoded; 0 if not even one event is whole."""
        if self._ended:
            return len(self._buffer.rstrip(_BETWEEN))
        return self._last_boundary()

    def _last_shared_boundary(self) -> re.Match[bytes] | None:
        """Return the event boundary at which somebody else goes on, once it is in the buffer."""
        if self._stop is None or self._offset + len(self._buffer) <= self._stop:
            return None
        return _NEXT_EVENT.search(self._buffer, max(0, self._stop - self._offset))

    def _decode_block(self, block: bytes) -> tuple[list[E], bytes, bool]:
        """Decode the events of `block`.

        Returns:
            The events, the bytes after them, and whether the array was closed between the two.
        """
        text = b"[" + block + b"]"
        try:
            return self._decode(text), b"", False
        except msgspec.ValidationError:
            return self._decode_pieces(block)
        except msgspec.DecodeError as error:
            closed = self._decode_closed(text, error)
        if closed is not None:
            return *closed, True
        finite, count = without_infinities(block)
        if count:
            place = f"byte {self._offset} or later"
            self._losses.fault("inf or nan: read as null", count, where=place)
            return self._decode_block(finite)
        return self._decode_pieces(block)

    def _decode_closed(
        self, text: bytes, error: msgspec.DecodeError
    ) -> tuple[list[E], bytes] | None:
        """Decode `text` up to the bracket that closes the array, if `error` says that it has.

        Returns:
            The events and the bytes after the bracket, less the last of `text`.
        """
        trailing = _TRAILING.search(str(error))
        if trailing is None:
            return None
        end = text.rfind(b"]", 0, int(trailing[1]) - 1) + 1
        try:
            return self._decode(text[:end]), text[end:-1]
        except msgspec.DecodeError:
            return None

    def _decode_pieces(self, block: bytes) -> tuple[list[E], bytes, bool]:
        """Decode a damaged block event by event; arguments and result are `_decode_block`'s."""
        gaps = list(_NEXT_EVENT.finditer(block))
        starts = [0, *(gap.end() for gap in gaps)]
        ends = [*(gap.start() + 1 for gap in gaps), len(block)]
        events: list[E] = []
        first = last = 0
        while first < len(starts):
            found, rest, problem = self._decode_piece(block[starts[first] : ends[last]])
            events += found
            if problem == _CLOSED:
                return events, rest + block[ends[last] :], True
            if problem == _INCOMPLETE:
                if last + 1 < len(ends) and last - first < _NESTED_MAX:
                    last += 1
                    continue
                if last + 1 == len(ends):
                    return events, block[starts[first] :], False
            if problem:
                place = self._offset + starts[first]
                self._losses.fault("damaged event: left out", where=f"byte {place} ({problem})")
                last = first
            first = last = last + 1
        return events, b"", False

    def _decode_piece(self, piece: bytes) -> tuple[list[E], bytes, str]:
        """Decode one event, repaired if need be.

        Returns:
            The events, the bytes after them, and the problem: empty, `_INCOMPLETE`, `_CLOSED` or
            what is wrong.
        """
        problem = ""
        for repair in (bytes, repaired):
            text = repair(piece)
            if repair is repaired and text == piece:
                break
            array = b"[" + text + b"]"
            try:
                events = self._decode(array)
            except msgspec.ValidationError as error:
                return [], b"", str(error)
            except msgspec.DecodeError as error:
                closed = self._decode_closed(array, error)
                if closed is not None:
                    return *closed, _CLOSED
                problem = problem or str(error)
            else:
                if repair is repaired:
                    self._losses.fault(
                        "event with control characters, bad escapes, inf or nan: repaired",
                        where=f"byte {self._offset} or later",
                    )
                return events, b"", ""
        try:
            self._decode(b"[" + piece)
        except msgspec.DecodeError as error:
            if "truncated" in str(error):
                problem = _INCOMPLETE
        return [], b"", problem

    def _sound_text(self, block: bytes) -> bytes:
        """Return `block` as valid UTF-8."""
        sound, count, first = valid_utf8(block)
        place = f"byte {self._offset + first}"
        self._losses.fault("invalid UTF-8: replaced by U+FFFD", count, where=place)
        return sound

    def _last_boundary(self) -> int:
        """Return where the last event that is followed by another ends; 0 if there is none."""
        buffer = self._buffer
        start = len(buffer)
        while (start := buffer.rfind(b"{", 0, start)) > 0:
            before = buffer[max(0, start - 256) : start].rstrip()
            if not before.endswith(b",") or not _EVENT_START.match(buffer, start):
                continue
            before = before[:-1].rstrip()
            if before.endswith(b"}"):
                return buffer.rfind(b"}", 0, start) + 1
        return 0

    def _skip_to_next_event(self) -> None:
        self._losses.fault(
            f"no end of an event within {_EVENT_BYTES_MAX >> 20} MiB: left out",
            where=f"byte {self._offset}",
        )
        following = _EVENT_START.search(self._buffer, 1)
        self._drop(following.start() if following else len(self._buffer))

    def _read_value(self) -> Any:
        """Read one JSON value; a huge one is skipped and read as `None`."""
        pieces: list[bytes] = []
        size = depth = position = 0
        if self._next_byte() not in (b'"', b"{", b"["):
            return self._read_scalar()
        while True:
            token = _TOKEN.search(self._buffer, position)
            if token is None or token[0] == b'"':
                consumed = token.start() if token else len(self._buffer)
                size += consumed
                if size <= _METADATA_BYTES_MAX:
                    pieces.append(self._buffer[:consumed])
                self._drop(consumed)
                if not self._fill(len(self._buffer) + self._block_bytes):
                    self._drop(len(self._buffer))
                    return None
                position = 0
                continue
            position = token.end()
            depth += (token[0] in (b"{", b"[")) - (token[0] in (b"}", b"]"))
            if depth == 0:
                break
        size += position
        pieces.append(self._buffer[:position])
        self._drop(position)
        return self._decode_value(b"".join(pieces)) if size <= _METADATA_BYTES_MAX else None

    def _read_scalar(self) -> Any:
        self._fill(1 << 10)
        match = _SCALAR.match(self._buffer)
        text = match[0] if match else b""
        self._drop(len(text))
        return self._decode_value(text)

    def _decode_value(self, text: bytes) -> Any:
        text = self._sound_text(text)
        for candidate in (text, repaired(text)):
            try:
                return msgspec.json.decode(candidate)
            except msgspec.DecodeError:
                continue
        self._losses.fault("damaged metadata: left out", where=f"byte {self._offset}")
        return None

    def _next_byte(self) -> bytes:
        """Return the next byte that is no blank or comma, empty at the end of the stream."""
        while True:
            match = _SEPARATOR.match(self._buffer)
            self._drop(match.end() if match else 0)
            if self._buffer or not self._fill(self._block_bytes):
                return self._buffer[:1]

    def _fill(self, size: int) -> bool:
        """Read until the buffer holds `size` bytes; tell whether anything was read."""
        if self._ended or len(self._buffer) >= size:
            return False
        parts = [self._buffer]
        held = len(self._buffer)
        while held < size:
            chunk = next(self._chunks, b"")
            if not chunk:
                self._ended = True
                break
            parts.append(chunk)
            held += len(chunk)
        grown = held > len(self._buffer)
        self._buffer = b"".join(parts)
        return grown

    def _drop(self, size: int, put_back: bytes = b"") -> None:
        self._offset += size - len(put_back)
        self._buffer = put_back + self._buffer[size:]
