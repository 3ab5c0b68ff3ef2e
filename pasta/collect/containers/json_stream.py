"""A JSON document as a stream: bytes, small values, blanks; memory does not depend on its size."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from pasta.collect.containers.json_repair import repaired, valid_utf8
from pasta.collect.losses import Losses

BLOCK_BYTES = 4 << 20
_METADATA_BYTES_MAX = 16 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BETWEEN = b" \t\r\n,"
_SEPARATOR = re.compile(rb"[\s,]*")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|["{}\[\]]', re.DOTALL)
_SCALAR = re.compile(rb"[^\s,\]}]*")


class JsonStream:
    """The bytes of a document, with those that are next in a buffer.

    Args:
        chunks: the stream's bytes.
        losses: where damage is counted.
        damage: what ended the stream early, filled by whoever feeds it.
        block_bytes: read about so many bytes at once.
        start: the byte at which the chunks start.

    Attributes:
        complete: whether the outermost value has been read to its end.
    """

    def __init__(
        self,
        chunks: Iterator[bytes],
        losses: Losses,
        damage: Sequence[str] = (),
        *,
        block_bytes: int = BLOCK_BYTES,
        start: int = 0,
    ) -> None:
        self.complete = False
        self._chunks = chunks
        self._losses = losses
        self._damage = damage
        self._block_bytes = block_bytes
        self._buffer = b""
        self._offset = start
        self._ended = False

    @property
    def cut(self) -> str:
        """Why and where reading stopped before the end of the outermost value; empty if not."""
        if self.complete:
            return ""
        unexpected = self._buffer.lstrip(BETWEEN)[:1]
        if unexpected in b"{,":
            cause = "; ".join(self._damage) or "the file ends early"
            return f"{cause}: cut at byte {self._offset + len(self._buffer)}"
        return f"unexpected {unexpected!r}: cut at byte {self._offset}"

    def _first_byte(self) -> bytes:
        """Return the first byte that is no blank, after a mark of the byte order if there is one."""
        first = self._next_byte()
        if first == b"\xef" and self._buffer.startswith(_BYTE_ORDER_MARK):
            self._drop(len(_BYTE_ORDER_MARK))
            first = self._next_byte()
        return first

    def _read_key(self) -> str | None:
        """Read the next key of an object, up to its value.

        The result is `None` at the end of the object, which `complete` tells of, or where no key
        can be read.
        """
        byte = self._next_byte()
        if byte == b"}":
            self.complete = True
        if byte != b'"':
            return None
        key = self._read_value()
        if self._next_byte() != b":":
            return None
        self._drop(1)
        return str(key)

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
            except (msgspec.DecodeError, RecursionError):
                continue
        self._losses.fault("damaged metadata: left out", where=f"byte {self._offset}")
        return None

    def _sound_text(self, block: bytes) -> bytes:
        """Return `block` as valid UTF-8."""
        sound, count, first = valid_utf8(block)
        place = f"byte {self._offset + first}"
        self._losses.fault("invalid UTF-8: replaced by U+FFFD", count, where=place)
        return sound

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
