"""A tiny encoder of protocol buffers, to make the files that importers of them are tested with."""

from __future__ import annotations

import struct


def varint(value: int) -> bytes:
    """Encode a number; negative ones as 64-bit two's complement."""
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def field(number: int, value: float | str | bytes) -> bytes:
    """Encode a field, as varint, double or with its length."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def message(*pairs: tuple[int, int | float | str | bytes | None]) -> bytes:
    """Encode a message from (number, value); fields whose value is `None` are left out."""
    return b"".join(field(number, value) for number, value in pairs if value is not None)
