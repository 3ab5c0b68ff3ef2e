"""Thrift's compact protocol, as far as the headers and the footer of a Parquet file need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

_SMALL = [bytes([number]) for number in range(0x80)]
_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12


class Value(NamedTuple):
    """An encoded value: its type in the compact protocol, and its bytes."""

    type: int
    bytes: bytes


def varint(number: int) -> bytes:
    """Return a number of at least 0 in groups of 7 bits, the lowest first."""
    if number <= 0x7F:
        return _SMALL[number]
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def zigzag(number: int) -> bytes:
    """Return a number of either sign as one of at least 0: small ones stay small."""
    return varint(2 * number if number >= 0 else -2 * number - 1)


@lru_cache(1024)
def i32(number: int) -> Value:
    """Return an integer of 32 bits, or an enumerator."""
    return Value(_I32, zigzag(number))


@lru_cache(1024)
def i64(number: int) -> Value:
    """Return an integer of 64 bits."""
    return Value(_I64, zigzag(number))


def binary(value: bytes | str) -> Value:
    """Return bytes, or a text as UTF-8."""
    encoded = value.encode() if isinstance(value, str) else value
    return Value(_BINARY, varint(len(encoded)) + encoded)


def items(values: Sequence[Value]) -> Value:
    """Return a list of values of one type; an empty one is of structures."""
    short = len(values) < 15
    kind = values[0].type if values else _STRUCT
    head = bytes([(len(values) if short else 15) << 4 | kind])
    size = b"" if short else varint(len(values))
    return Value(_LIST, head + size + b"".join(value.bytes for value in values))


def struct(fields: Mapping[int, Value]) -> Value:
    """Return a structure; its fields are given in the order of their ids, at most 15 apart."""
    encoded, last = bytearray(), 0
    for number, value in fields.items():
        encoded.append((number - last) << 4 | value.type)
        encoded += value.bytes
        last = number
    encoded.append(0)
    return Value(_STRUCT, bytes(encoded))
