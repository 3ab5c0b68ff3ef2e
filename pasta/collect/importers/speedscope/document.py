"""A speedscope document: frames, and profiles whose long lists stay raw text until they are read.

A large document's lists are set aside on disk, so that memory holds the rest of it only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct, field

from pasta.collect.containers.json_aside import Aside
from pasta.collect.containers.json_documents import is_small, read_document
from pasta.collect.losses import Losses
from pasta.collect.sources import Source

_BLOCK_BYTES = 4 << 20
_NEXT_NUMBER = re.compile(rb"(,)")
_NEXT_LIST = re.compile(rb"\]\s*(,)\s*\[")
_NEXT_OBJECT = re.compile(rb"\}\s*(,)\s*\{")
_DAMAGED = "samples or events of another form than speedscope's: left out, with all that follow"

T = TypeVar("T")


class SharedFrame(Struct, gc=False):
    """A frame that samples and events refer to by its place."""

    name: Any = ""
    file: Any = None
    line: Any = None


class Shared(Struct):
    """What all profiles share."""

    frames: list[SharedFrame] = []


class Profile(Struct):
    """One profile, of a thread mostly."""

    type: str = ""
    name: str = ""
    unit: str = "none"
    start: Raw = field(default=Raw(b"0"), name="startValue")
    samples: Raw = Raw(b"[]")
    weights: Raw = Raw(b"[]")
    events: Raw = Raw(b"[]")


class Document(Struct):
    """A speedscope file."""

    shared: Shared = field(default_factory=Shared)
    profiles: list[Profile] = []
    name: Any = None
    exporter: Any = None


class Event(Struct, gc=False):
    """A frame that is opened (`O`) or closed (`C`)."""

    type: str
    frame: int
    at: Raw


_decode = msgspec.json.Decoder(Document).decode
_decode_samples = msgspec.json.Decoder(list[list[int]]).decode
_decode_weights = msgspec.json.Decoder(list[Raw]).decode
_decode_events = msgspec.json.Decoder(list[Event]).decode
_ENDS = {b"samples": rb"\]\s*\]", b"weights": rb"\]", b"events": rb"\]"}


class Lists:
    """The long lists of one document.

    Args:
        scratch: folder for those that memory does not hold; made once that is needed, to be removed by
            the caller.
        losses: where damage is counted.
    """

    def __init__(self, scratch: Path, losses: Losses) -> None:
        self._losses = losses
        self._aside = Aside(scratch / "lists", _ENDS)

    def document(self, source: Source) -> Document:
        """Read the document that they are in.

        Raises:
            InputError: as of `read_document`.
        """
        if is_small(source):
            return read_document(source, _decode, self._losses)
        rest = self._aside.rest_of(source.chunks)
        return read_document(replace(source, chunks=rest), _decode, self._losses)

    def samples(self, profile: Profile) -> Iterator[list[int]]:
        """Yield the frames of each sample, outermost first."""
        return self._items(profile.samples, _NEXT_LIST, _decode_samples)

    def weights(self, profile: Profile) -> Iterator[Raw]:
        """Yield the weight of each sample as it is written."""
        return self._items(profile.weights, _NEXT_NUMBER, _decode_weights)

    def events(self, profile: Profile) -> Iterator[Event]:
        """Yield the events."""
        return self._items(profile.events, _NEXT_OBJECT, _decode_events)

    def _items(
        self, raw: Raw, boundary: re.Pattern[bytes], decode: Callable[[bytes], list[T]]
    ) -> Iterator[T]:
        """Yield the items of a list, decoded block by block."""
        for block in self._blocks(raw, boundary):
            try:
                yield from decode(b"[" + block + b"]")
            except msgspec.DecodeError:
                self._losses.fault(_DAMAGED)
                yield from _sound(block, boundary, decode)
                return

    def _blocks(self, raw: Raw, boundary: re.Pattern[bytes]) -> Iterator[bytes]:
        text = memoryview(raw)
        if place := self._aside.place_of(raw):
            yield from self._aside.blocks(place, boundary, _BLOCK_BYTES)
            return
        if bytes(text[:1]) != b"[":
            self._losses.fault(_DAMAGED)
            return
        start, end = 1, len(text) - 1
        while start < end:
            found = boundary.search(text, min(start + _BLOCK_BYTES, end), end)
            stop = found.start(1) if found else end
            yield bytes(text[start:stop])
            start = stop + 1


def _sound(
    block: bytes, boundary: re.Pattern[bytes], decode: Callable[[bytes], list[T]]
) -> list[T]:
    """Return the items of a damaged block that stand before the last one, if those are sound."""
    last = None
    for last in boundary.finditer(block):  # noqa: B007 - the last is what is looked for
        pass
    try:
        return decode(b"[" + block[: last.start(1)] + b"]") if last else []
    except msgspec.DecodeError:
        return []
