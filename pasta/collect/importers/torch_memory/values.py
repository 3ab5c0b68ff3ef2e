"""What the entries of a snapshot hold, whatever their types turn out to be."""

from __future__ import annotations

from typing import Any

from pasta.collect.shaping.decimal_time import LIMIT

_ADDRESS_MAX = (1 << 64) - 1
_SIZE_LIMIT = 1 << 62


def entries(value: Any) -> list[dict[str, Any]]:
    """Return the dicts in a list; what else there is, or no list, gives none."""
    return [entry for entry in value if type(entry) is dict] if type(value) is list else []


def address_of(value: Any) -> int | None:
    """Return an address; C++ writes the upper half of them as negative numbers."""
    if type(value) is not int or not -(1 << 63) <= value <= _ADDRESS_MAX:
        return None
    return value & _ADDRESS_MAX


def size_of(value: Any) -> int | None:
    """Return a number of bytes that is believed."""
    return value if type(value) is int and 0 <= value < _SIZE_LIMIT else None


def nanoseconds_of(value: Any) -> int | None:
    """Return the nanoseconds of whole microseconds since the epoch that are believed."""
    return value * 1000 if type(value) is int and 0 < value * 1000 < LIMIT else None


def device_of(value: Any) -> int:
    """Return the ordinal of a device, -1 where it is unknown."""
    return value if type(value) is int and 0 <= value < 1 << 16 else -1


def stream_of(value: Any) -> int | None:
    """Return the handle of a stream."""
    return value if type(value) is int and -(1 << 63) <= value < 1 << 63 else None


def text_of(value: Any) -> str:
    """Return a text, empty where it is none; halves of characters, which pickles may hold, as `?`."""
    if type(value) is not str:
        return ""
    return value if value.isascii() else value.encode(errors="replace").decode()
