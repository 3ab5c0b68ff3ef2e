"""Changes of protobuf messages: of fields, numbers, kinds, lengths and nesting, without a schema."""

from __future__ import annotations

from random import Random
from typing import TypeAlias

from .oddities import BYTES, near, odd_integer, odd_text
from .raw import LONGEST, mutate_bytes

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}
_DEEPEST = 12

Field: TypeAlias = "list[int | bytes | list[Field]]"
"""Number, wire type and value: an int, bytes, or the fields of a message."""


def mutate_protobuf(data: bytes, random: Random) -> bytes:
    """Return the message with some of its fields changed, or with its bytes changed."""
    fields = _parsed(data, 0)
    if not fields or random.random() < 0.2:
        return mutate_bytes(data, random)
    for _ in range(random.choice([1, 1, 2, 4])):
        _change(random.choice(_messages(fields)), random)
    changed = _written(fields, random)
    return (mutate_bytes(changed, random) if random.random() < 0.1 else changed)[:LONGEST]


def _parsed(data: bytes, depth: int) -> list[Field] | None:
    """Return the fields of `data`, `None` where it is no message."""
    fields: list[Field] = []
    at = 0
    while at < len(data):
        key, at = _varint_at(data, at)
        number, wire = key >> 3, key & 7
        value: int | bytes | list[Field]
        if number == 0 or at < 0:
            return None
        if wire == _VARINT:
            value, at = _varint_at(data, at)
        elif wire in (_DELIMITED, *_FIXED_SIZES):
            size, at = _varint_at(data, at) if wire == _DELIMITED else (_FIXED_SIZES[wire], at)
            value, at = data[at : at + size], at + size
            if at > len(data) or at < size:
                return None
            if wire == _DELIMITED and depth < _DEEPEST and value:
                value = _parsed(value, depth + 1) or value
        else:
            return None
        if at < 0:
            return None
        fields.append([number, wire, value])
    return fields


def _varint_at(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and the place behind it; -1 where there is none."""
    number = 0
    for index in range(10):
        if at + index >= len(data):
            break
        number |= (data[at + index] & 0x7F) << 7 * index
        if data[at + index] < 0x80:
            return number, at + index + 1
    return 0, -1


def _varint(number: int) -> bytes:
    written = bytearray()
    number &= (1 << 64) - 1
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])


def _messages(fields: list[Field]) -> list[list[Field]]:
    found, waiting = [], [fields]
    while waiting and len(found) < 2000:
        message = waiting.pop()
        if message:
            found.append(message)
        waiting.extend(field[2] for field in message if isinstance(field[2], list))
    return found


def _change(message: list[Field], random: Random) -> None:
    at = random.randrange(len(message))
    field = message[at]
    kind = random.randrange(9)
    if kind < 3:
        field[2] = _other_value(field, random)
    elif kind == 3:
        field[0] = random.choice(
            [1, 2, 3, 4, 5, 8, 10, 11, 60, int(field[0]) + 1, (1 << 29) - 1, 1 << 30]
        )
    elif kind == 4:
        field[1] = random.choice([_VARINT, _FIXED64, _DELIMITED, 3, 4, _FIXED32, 6, 7])
    elif kind == 5 and len(message) > 1:
        del message[at]
    elif kind == 6:
        message[at:at] = [list(field)] * random.choice([1, 2, 40])
    elif kind == 7:
        other = random.randrange(len(message))
        message[at], message[other] = message[other], message[at]
    else:
        for _ in range(random.choice([1, 10, 300])):
            message[at] = [field[0], _DELIMITED, [message[at]]]


def _other_value(field: Field, random: Random) -> int | bytes:
    value = field[2]
    if isinstance(value, int):
        return near(value, random) if random.random() < 0.4 else odd_integer(random)
    if isinstance(value, bytes) and field[1] != _DELIMITED:
        return random.randbytes(len(value))
    if isinstance(value, bytes) and random.random() < 0.3:
        return mutate_bytes(value, random)
    return random.choice([random.choice(BYTES), odd_text(random).encode("utf-8", "surrogatepass")])


def _written(fields: list[Field], random: Random) -> bytes:
    """Return the bytes of a message, in which a length is now and then a lie."""
    written = bytearray()
    for number, wire, value in fields:
        content = _written(value, random) if isinstance(value, list) else value
        written += _varint(int(number) << 3 | int(wire))  # type: ignore[arg-type]
        if isinstance(content, int):
            written += _varint(content)
            continue
        if wire == _DELIMITED:
            lie = random.random() < 0.004
            written += _varint(odd_integer(random) if lie else len(content))
        written += content
        if len(written) > LONGEST:
            break
    return bytes(written)
