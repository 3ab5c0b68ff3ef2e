"""The planes of an XSpace and what they call their events, after `xplane.proto`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pasta.collect.containers.protobuf_fields import (
    MessageFile,
    Place,
    WireError,
    fields,
    number,
    signed,
    text,
    unsigned,
)

SPACE_PLANES, SPACE_ERRORS, SPACE_WARNINGS, SPACE_HOSTS = 1, 2, 3, 4
_PLANE_NAME, _PLANE_LINES, _PLANE_EVENTS, _PLANE_STATS, _PLANE_OWN_STATS = 2, 3, 4, 5, 6
_LINE_ID, _LINE_NAME, _LINE_TIMESTAMP, _LINE_EVENTS = 1, 2, 3, 4
_LINE_DISPLAY_ID, _LINE_DISPLAY_NAME = 10, 11
_EVENT_METADATA, _EVENT_OFFSET, _EVENT_DURATION, _EVENT_STATS, _EVENT_OCCURRENCES = 1, 2, 3, 4, 5
_STAT_METADATA, _STAT_REFERENCE = 1, 7
_METADATA_NAME, _METADATA_DISPLAY, _METADATA_STATS = 2, 4, 5
_ENTRY_KEY, _ENTRY_VALUE = 1, 2
_LARGEST = 1 << 62

_STAT_VALUES = {
    2: number,
    3: unsigned,
    4: signed,
    5: text,
    6: text,
}

Stats = Mapping[str, Any]
"""Values by name."""


class Event(NamedTuple):
    """An event of a line.

    Attributes:
        name: what its metadata call it.
        start_ps: from the line's start.
        duration_ps: `None`: none, or not believed.
        stats: its own, and those of its metadata.
    """

    name: str
    start_ps: int
    duration_ps: int | None
    stats: Stats


@dataclass
class Line:
    """One line of a plane.

    Attributes:
        id: a thread's number, a stream's, or any.
        name: of the thread or stream.
        start_ns: what its events' times are from.
        place: the message.
    """

    id: int
    name: str
    start_ns: int
    place: bytes | Place


@dataclass
class Described:
    """What a plane says of all events of one kind."""

    name: str = ""
    stats: list[bytes] = field(default_factory=list)


class Plane:
    """One plane.

    Args:
        file: the file.
        place: the message.

    Attributes:
        name: such as `/host:CPU` or `/device:GPU:0`.
        broken: messages in it that could not be read.
        aggregated: events that stand for several, without times.
    """

    def __init__(self, file: MessageFile, place: int | bytes | Place) -> None:
        self.name = ""
        self.broken = 0
        self.aggregated = 0
        self._file = file
        self._lines: list[bytes | Place] = []
        self._events: dict[int, Described] = {}
        self._stat_names: dict[int, str] = {}
        self._described: dict[int, Stats] = {}
        self._own: list[bytes] = []
        for field_number, value in self._fields(place):
            if field_number == _PLANE_NAME:
                self.name = _text(value)
            elif field_number == _PLANE_LINES and not isinstance(value, int):
                self._lines.append(value)
            elif not isinstance(value, int):
                self._describe(field_number, value)

    @property
    def stats(self) -> Stats:
        """The plane's own statistics."""
        return self._read_stats(self._own)

    def lines(self) -> Iterator[Line]:
        """Yield the lines."""
        for place in self._lines:
            line = Line(0, "", 0, place)
            display_id, display_name = 0, ""
            for field_number, value in self._fields(place):
                if field_number == _LINE_ID:
                    line.id = _signed(value)
                elif field_number == _LINE_NAME:
                    line.name = _text(value)
                elif field_number == _LINE_TIMESTAMP:
                    line.start_ns = _signed(value)
                elif field_number == _LINE_DISPLAY_ID:
                    display_id = _signed(value)
                elif field_number == _LINE_DISPLAY_NAME:
                    display_name = _text(value)
            line.id = line.id or display_id
            line.name = line.name or display_name
            yield line

    def events(self, line: Line) -> Iterator[Event]:
        """Yield the events of a line."""
        for field_number, value in self._fields(line.place):
            if field_number != _LINE_EVENTS or not isinstance(value, bytes):
                continue
            try:
                event = self._event(value)
            except WireError:
                self.broken += 1
                continue
            if event is None:
                self.aggregated += 1
            else:
                yield event

    def _event(self, data: bytes) -> Event | None:
        kind = start = duration = 0
        stats: list[bytes] = []
        for field_number, _, value in fields(data):
            if field_number == _EVENT_METADATA:
                kind = signed(value)
            elif field_number == _EVENT_OFFSET:
                start = signed(value)
            elif field_number == _EVENT_DURATION:
                duration = signed(value)
            elif field_number == _EVENT_STATS and isinstance(value, bytes):
                stats.append(value)
            elif field_number == _EVENT_OCCURRENCES:
                return None
        described = self._events.get(kind)
        if kind not in self._described:
            self._described[kind] = self._read_stats(described.stats if described else [])
        own = self._read_stats(stats)
        return Event(
            described.name if described else "",
            start,
            duration if 0 <= duration < _LARGEST else None,
            {**self._described[kind], **own} if self._described[kind] else own,
        )

    def _describe(self, field_number: int, place: bytes | Place) -> None:
        try:
            value = self._file.read(place) if isinstance(place, Place) else place
            if field_number == _PLANE_EVENTS:
                key, entry = _entry(value)
                self._events[key] = _described(entry)
            elif field_number == _PLANE_STATS:
                key, entry = _entry(value)
                self._stat_names[key] = _described(entry).name
            elif field_number == _PLANE_OWN_STATS:
                self._own.append(value)
        except WireError:
            self.broken += 1

    def _read_stats(self, messages: list[bytes]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for data in messages:
            name = ""
            value: Any = None
            try:
                for field_number, _, content in fields(data):
                    if field_number == _STAT_METADATA:
                        name = self._stat_names.get(signed(content), "")
                    elif field_number == _STAT_REFERENCE:
                        value = self._stat_names.get(unsigned(content), "")
                    elif field_number in _STAT_VALUES:
                        value = _STAT_VALUES[field_number](content)
            except (WireError, OverflowError):
                self.broken += 1
                continue
            found[name] = value
        return found

    def _fields(self, place: int | bytes | Place) -> Iterator[tuple[int, int | bytes | Place]]:
        """Yield number and value of fields, up to where they can be read."""
        try:
            for field_number, _, value in self._file.fields(place):
                yield field_number, value
        except WireError:
            self.broken += 1


def _entry(data: bytes) -> tuple[int, bytes]:
    """Return key and value of an entry of a map."""
    key, value = 0, b""
    for field_number, _, content in fields(data):
        if field_number == _ENTRY_KEY:
            key = signed(content)
        elif field_number == _ENTRY_VALUE and isinstance(content, bytes):
            value = content
    return key, value


def _described(data: bytes) -> Described:
    found = Described()
    display = ""
    for field_number, _, value in fields(data):
        if field_number == _METADATA_NAME:
            found.name = text(value)
        elif field_number == _METADATA_DISPLAY:
            display = text(value)
        elif field_number == _METADATA_STATS and isinstance(value, bytes):
            found.stats.append(value)
    found.name = found.name or display
    return found


def _signed(value: int | bytes | Place) -> int:
    return signed(value) if isinstance(value, int) else 0


def _text(value: int | bytes | Place) -> str:
    return text(value) if isinstance(value, bytes) else ""
