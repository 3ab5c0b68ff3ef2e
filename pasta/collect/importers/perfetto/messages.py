"""Numbers of the fields that are read, after Perfetto's published `.proto` files."""

from __future__ import annotations

from enum import IntEnum

from pasta.collect.containers.protobuf_fields import by_number, message, signed, text, unsigned

TRACE_PACKET = 1


class Packet(IntEnum):
    """Fields of `TracePacket`."""

    FTRACE_EVENTS = 1
    PROCESS_TREE = 2
    CLOCK_SNAPSHOT = 6
    TIMESTAMP = 8
    SEQUENCE = 10
    TRACK_EVENT = 11
    INTERNED_DATA = 12
    SEQUENCE_FLAGS = 13
    INCREMENTAL_STATE_CLEARED = 41
    PREVIOUS_PACKET_DROPPED = 42
    PROCESS_DESCRIPTOR = 43
    THREAD_DESCRIPTOR = 44
    COMPRESSED_PACKETS = 50
    GPU_COUNTER_EVENT = 52
    GPU_RENDER_STAGE_EVENT = 53
    TIMESTAMP_CLOCK = 58
    DEFAULTS = 59
    TRACK_DESCRIPTOR = 60


class TrackEvent(IntEnum):
    """Fields of `TrackEvent`; its defaults have the same numbers."""

    CATEGORY_IIDS = 3
    DEBUG_ANNOTATIONS = 4
    LEGACY_EVENT = 6
    TYPE = 9
    NAME_IID = 10
    TRACK_UUID = 11
    EXTRA_VALUES = 12
    TIMESTAMP_ABSOLUTE_US = 16
    CATEGORIES = 22
    NAME = 23
    COUNTER_VALUE = 30
    EXTRA_TRACKS = 31
    DOUBLE_COUNTER_VALUE = 44
    EXTRA_DOUBLE_TRACKS = 45
    EXTRA_DOUBLE_VALUES = 46


class EventType(IntEnum):
    """Values of `TrackEvent.Type`."""

    BEGIN = 1
    END = 2
    INSTANT = 3
    COUNTER = 4


class Stage(IntEnum):
    """Fields of `GpuRenderStageEvent`."""

    DURATION = 2
    OLD_QUEUE = 3
    OLD_STAGE = 4
    CONTEXT = 5
    SPECIFICATIONS = 7
    GPU = 11
    QUEUE_IID = 13
    STAGE_IID = 14
    NAME = 17
    NAME_IID = 20
    LAUNCH = 21


class Interned(IntEnum):
    """Fields of `InternedData`."""

    CATEGORIES = 1
    EVENT_NAMES = 2
    ANNOTATION_NAMES = 3
    GRAPHICS_CONTEXTS = 23
    GPU_SPECIFICATIONS = 24
    STRING_VALUES = 29


KINDS = {
    Packet.FTRACE_EVENTS: "events of the Linux kernel",
    Packet.GPU_COUNTER_EVENT: "counters of GPUs",
    7: "statistics of the system",
    9: "statistics of processes",
    37: "heap profiles",
    38: "battery",
    39: "Android's log",
    66: "samples of perf",
    95: "events of Windows",
    133: "packets compressed with zstd",
}
"""What packets of other fields hold."""

HOUSEKEEPING = frozenset(
    [
        *(Packet.TIMESTAMP, Packet.SEQUENCE, Packet.INTERNED_DATA, Packet.SEQUENCE_FLAGS),
        *(Packet.INCREMENTAL_STATE_CLEARED, Packet.PREVIOUS_PACKET_DROPPED),
        *(Packet.TIMESTAMP_CLOCK, Packet.DEFAULTS),
        *(3, 16, 33, 34, 35, 36, 42, 45, 46, 47, 67, 69, 72, 75, 76, 78, 79, 87, 89, 98, 102, 128),
    ]
)
"""Fields of packets that are of the recording, not of what was recorded."""

Values = dict[int, list[int | bytes]]
"""The fields of a message by number."""


def last(values: Values, number: int) -> int | bytes | None:
    """Return the value of a field; `None`: it is not set."""
    found = values.get(number)
    return found[-1] if found else None


def whole(values: Values, number: int) -> int:
    """Return the value of an unsigned field; 0: it is not set."""
    found = values.get(number)
    return unsigned(found[-1]) if found else 0


def integer(values: Values, number: int) -> int:
    """Return the value of a signed field; 0: it is not set."""
    return signed(last(values, number) or 0)


def string(values: Values, number: int) -> str:
    """Return the value of a field of text; empty: it is not set."""
    return text(last(values, number) or b"")


def inner(values: Values, number: int) -> Values:
    """Return the fields of a field that is a message; empty: it is not set."""
    return by_number(message(last(values, number) or b""))
