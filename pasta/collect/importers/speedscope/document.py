"""A speedscope document: frames, and profiles whose long lists stay raw text until they are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct, field

from pasta.collect.losses import Losses

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


decode_document: Callable[[bytes], Document] = msgspec.json.Decoder(Document).decode
"""Decodes a whole file."""

_decode_samples = msgspec.json.Decoder(list[list[int]]).decode
_decode_weights = msgspec.json.Decoder(list[Raw]).decode
_decode_events = msgspec.json.Decoder(list[Event]).decode


def samples_of(profile: Profile, losses: Losses) -> Iterator[list[int]]:
    """Yield the frames of each sample, outermost first."""
    return _items(profile.samples, _NEXT_LIST, _decode_samples, losses)


def weights_of(profile: Profile, losses: Losses) -> Iterator[Raw]:
    """Yield the weight of each sample as it is written."""
    return _items(profile.weights, _NEXT_NUMBER, _decode_weights, losses)


def events_of(profile: Profile, losses: Losses) -> Iterator[Event]:
    """Yield the events."""
    return _items(profile.events, _NEXT_OBJECT, _decode_events, losses)


def _items(
    raw: Raw, boundary: re.Pattern[bytes], decode: Callable[[bytes], list[T]], losses: Losses
) -> Iterator[T]:
    """Yield the items of a list, decoded block by block."""
    text = memoryview(raw)
    if bytes(text[:1]) != b"[":
        losses.fault(_DAMAGED)
        return
    start, end = 1, len(text) - 1
    while start < end:
        found = boundary.search(text, min(start + _BLOCK_BYTES, end), end)
        stop = found.start(1) if found else end
        try:
            yield from decode(b"".join((b"[", text[start:stop], b"]")))
        except msgspec.DecodeError:
            losses.fault(_DAMAGED)
            return
        start = stop + 1
