"""Writing messages in the wire format of protocol buffers.

Source: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

_MASK = (1 << 64) - 1
_MORE = 1 << 7


def varint(value: int) -> bytes:
    """Return a whole number of up to 64 bits; negative ones as two's complement."""
    value &= _MASK
    if value < _MORE:
        return bytes((value,))
    out = bytearray()
    while value >= _MORE:
        out.append(value & 127 | _MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


def number_field(number: int, value: int) -> bytes:
    """Return a field that is a varint."""
    return varint(number << 3) + varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    """Return a field that is a message or bytes."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def text_field(number: int, value: str) -> bytes:
    """Return a field that is a text."""
    return bytes_field(number, value.encode("utf-8", "replace"))
