"""Changes of bytes, for a container of any kind."""

from __future__ import annotations

from random import Random

from .oddities import BYTES, INTEGERS

LONGEST = 1 << 16
"""Of an input, in bytes; what grows beyond is cut."""


def mutate_bytes(data: bytes, random: Random) -> bytes:
    """Return `data` after one to four changes."""
    for _ in range(random.choice([1, 1, 1, 2, 4])):
        data = random.choice(_CHANGES)(data, random)
    return data[:LONGEST]


def cut(data: bytes, random: Random) -> bytes:
    """Return the start of `data`."""
    return data[: _place(data, random)]


def _behead(data: bytes, random: Random) -> bytes:
    return data[_place(data, random) :]


def flip(data: bytes, random: Random) -> bytes:
    """Return `data` with one bit changed."""
    if not data:
        return data
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]


def _overwrite(data: bytes, random: Random) -> bytes:
    at, piece = _place(data, random), _piece(data, random)
    return data[:at] + piece + data[at + len(piece) :]


def _insert(data: bytes, random: Random) -> bytes:
    at = _place(data, random)
    return data[:at] + _piece(data, random) + data[at:]


def _delete(data: bytes, random: Random) -> bytes:
    at = _place(data, random)
    return data[:at] + data[at + random.choice([1, 2, 4, 8, 64, 512]) :]


def _repeat(data: bytes, random: Random) -> bytes:
    at = _place(data, random)
    piece = data[at : at + random.choice([1, 8, 64, 512])]
    return data[:at] + piece * random.choice([2, 3, 50]) + data[at:]


def _place(data: bytes, random: Random) -> int:
    """Return an offset: anywhere, or near the start, where most headers are."""
    return random.randrange(min(len(data), 100) + 1 if random.random() < 0.3 else len(data) + 1)


def _piece(data: bytes, random: Random) -> bytes:
    kind = random.randrange(4)
    if kind == 0:
        return random.choice(BYTES)
    if kind == 1:
        return random.randbytes(random.choice([1, 2, 4, 8, 32]))
    if kind == 2:
        size = random.choice([1, 2, 4, 8])
        number = random.choice(INTEGERS) % (1 << 8 * size)
        return number.to_bytes(size, random.choice(["little", "big"]))
    at = _place(data, random)
    return data[at : at + random.choice([1, 4, 16, 128])]


_CHANGES = [cut, flip, flip, _behead, _overwrite, _overwrite, _insert, _delete, _repeat]
