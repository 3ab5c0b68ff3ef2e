"""Reading JSON that is arrays of whole numbers in arrays, of any size, whole or damaged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from pasta.collect.losses import Losses
from pasta.errors import InputError

_ARRAY = re.compile(rb"\[[^\[\]]*\]")
_BETWEEN = b"[], \t\r\n"
_ARRAY_BYTES_MAX = 128 << 20
_DAMAGED = "array of anything but whole numbers: left out"
_STRAY = "bytes outside of arrays of numbers: left out"


class NumberArrays:
    """The innermost arrays of one stream, in their order.

    Args:
        chunks: the stream's bytes.
        losses: where damage is counted.
        damage: what ended the stream early, filled by whoever feeds it.
    """

    def __init__(self, chunks: Iterator[bytes], losses: Losses, damage: Sequence[str] = ()) -> None:
        self._chunks = chunks
        self._losses = losses
        self._damage = damage
        self._read = self._kept = self._open = 0

    def __iter__(self) -> Iterator[list[list[int]]]:
        """Yield some arrays at a time.

        Raises:
            InputError: an array is larger than is believed.
        """
        rest = b""
        for chunk in self._chunks:
            self._read += len(chunk)
            self._open += chunk.count(b"[") - chunk.count(b"]")
            rest += chunk
            last = max(rest.rfind(b"["), 0)
            end = rest.find(b"]", last) + 1
            arrays = self._decode(rest[: end or last])
            rest = rest[end or last :]
            if len(rest) > _ARRAY_BYTES_MAX:
                raise InputError(
                    f"{self._losses.source}: has an array of more than {_ARRAY_BYTES_MAX >> 20} MiB"
                    f" before byte {self._read}; this is no memory timeline, or a damaged one"
                )
            if arrays:
                self._kept += len(arrays)
                yield arrays
        self._count_cut(rest)

    def _decode(self, text: bytes) -> list[list[int]]:
        stray = _ARRAY.sub(b"", text).translate(None, _BETWEEN)
        self._losses.fault(_STRAY, len(stray), where=f"byte {self._read}")
        found = _ARRAY.findall(text)
        try:
            return msgspec.json.decode(b"[" + b",".join(found) + b"]", type=list[list[int]])
        except (msgspec.MsgspecError, ValueError):
            return [array for one in found if (array := self._decode_one(one)) is not None]

    def _decode_one(self, text: bytes) -> list[int] | None:
        try:
            return msgspec.json.decode(text, type=list[int])
        except (msgspec.MsgspecError, ValueError):
            self._losses.fault(_DAMAGED, where=f"byte {self._read}")
            return None

    def _count_cut(self, rest: bytes) -> None:
        for damage in self._damage:
            self._losses.fault(damage)
        if self._open:
            self._losses.fault(
                f"JSON cut at byte {self._read}, {self._kept} arrays kept",
                where=f"byte {self._read}",
            )
        else:
            stray = rest.translate(None, _BETWEEN)
            self._losses.fault(_STRAY, len(stray), where=f"byte {self._read}")
