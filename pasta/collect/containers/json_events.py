"""Reading a large JSON object that holds an array of events, whole or damaged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from pasta.collect.containers.json_blocks import ArrayBlocks, Elements, elements_with
from pasta.collect.containers.json_stream import BLOCK_BYTES
from pasta.collect.losses import Losses
from pasta.errors import InputError

__all__ = ["BLOCK_BYTES", "EventReader"]

_EVENT_KEYS = rb"ph|cat|name|pid|tid|ts|dur|args|attr|cname|id|id2|s|sf|bp|tts|tdur"

E = TypeVar("E")


class EventReader(ArrayBlocks, Generic[E]):
    """The events of one stream, block by block.

    Args:
        chunks: the stream's bytes.
        decode: decodes a JSON array of events.
        losses: where damage is counted.
        damage: what ended the stream early, filled by whoever feeds it.
        array: key of the array; a stream that is a bare array is read too.
        keys: what the events may begin with, as a pattern such as `ph|name`.
        block_bytes: decode about so many bytes at once.
        start: the byte at which the chunks start.
        stop: end at the first event boundary at or after this byte; `None`: read to the end.

    Attributes:
        metadata: every other key of the object, filled while the events are read.
        kept: the number of events read so far.
        complete: whether the outermost value has been read to its end.
        seam: the byte of the first event that is left to somebody else, if reading ended there.

    Raises:
        InputError: on iteration, where the stream is no JSON, or its object has no such array.
    """

    def __init__(
        self,
        chunks: Iterator[bytes],
        decode: Callable[[bytes], list[E]],
        losses: Losses,
        damage: Sequence[str] = (),
        *,
        array: str = "traceEvents",
        keys: bytes = _EVENT_KEYS,
        block_bytes: int = BLOCK_BYTES,
        start: int = 0,
        stop: int | None = None,
    ) -> None:
        super().__init__(chunks, losses, damage, block_bytes=block_bytes, start=start)
        self.metadata: dict[str, Any] = {}
        self.seam: int | None = None
        self._bare = self._found = self._handed_over = False
        self._stop = stop
        self._elements = elements_with(keys, decode, "event")
        self._array = array

    def __iter__(self) -> Iterator[list[E]]:
        first = self._first_byte()
        if first not in (b"{", b"["):
            raise InputError(f"{self._losses.source}: not JSON (starts with {first!r})")
        self._drop(1)
        self._bare = self._found = first == b"["
        yield from self._read_events() if self._bare else self._read_object()
        if self.complete and not self._found:
            raise InputError(f"{self._losses.source}: JSON without '{self._array}'; not a trace")
        self._count_rest()

    def go_on(self) -> Iterator[list[E]]:
        """Read on from the seam to the end, in place of whoever was to do it."""
        self.seam = self._stop = None
        self._handed_over = False
        yield from self._read_events()
        if self.complete and not self._bare:
            self.complete = False
            yield from self._read_object()
        self._count_rest()

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
        while not (boundary := self._elements.following.search(self._buffer)):
            if not self._fill(len(self._buffer) + self._block_bytes):
                return
        self._drop(boundary.end())
        seam = self._offset
        yield from self.go_on()
        self.seam = seam

    @property
    def cut(self) -> str:
        """Why and where reading stopped before the end of the outermost value; empty if not."""
        return "" if self._handed_over else super().cut

    def _count_rest(self) -> None:
        """Count what stands behind the end of the outermost value."""
        if self.complete:
            self._drop(1 if self._buffer[:1] == b"}" and not self._bare else 0)
            if self._next_byte():
                place = f"byte {self._offset}"
                self._losses.fault("data behind the end of the JSON: left out", where=place)

    def _read_events(self) -> Iterator[list[E]]:
        return self._read_array(self._elements)

    def _read_object(self) -> Iterator[list[E]]:
        """Read keys and values of the outermost object up to its end."""
        while (key := self._read_key()) is not None:
            if self._next_byte() == b"[" and key == self._array:
                self._drop(1)
                self._found = True
                yield from self._read_events()
                if not self.complete:
                    return
                self.complete = False
            else:
                self.metadata[key] = self._read_value()

    def _seam_in_buffer(self, elements: Elements[Any]) -> re.Match[bytes] | None:
        if self._stop is None or self._offset + len(self._buffer) <= self._stop:
            return None
        return elements.following.search(self._buffer, max(0, self._stop - self._offset))

    def _ends_at_seam(self, next_start: int, rest: bytes) -> bool:
        self._stop = None
        if rest:
            return False
        self.seam = next_start
        self._handed_over = True
        return True
