"""Hexadecimal addresses in columns of text, many lines at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LANES = 32
_DIGITS = 16
_WIDTH = len("0x") + _DIGITS + len(" ")
REGULAR = LANES * _WIDTH - 1
"""Characters of 32 addresses that are printed with all their digits."""
_BAD = 255
_VALUE = np.full(256, _BAD, dtype=np.uint8)
_VALUE[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)
_VALUE[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16)


def regular_addresses(texts: Sequence[bytes]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return the addresses of texts of `REGULAR` characters, and which texts are sound.

    Returns:
        Addresses of shape (texts, 32), and whether each text is 32 numbers as `0x` and 16 digits.
    """
    joined = np.frombuffer(b" ".join(texts) + b" ", np.uint8).reshape(len(texts), LANES, _WIDTH)
    digits = _VALUE[joined[:, :, 2:-1]]
    framed = (joined[:, :, 0] == ord("0")) & (joined[:, :, 1] == ord("x"))
    framed &= (joined[:, :, -1] == ord(" ")) & (digits != _BAD).all(axis=2)
    pairs = (digits[:, :, 0::2] << 4) | (digits[:, :, 1::2] & 15)
    addresses = np.ascontiguousarray(pairs).view(">u8")[:, :, 0].astype(np.uint64)
    return addresses, framed.all(axis=1)


def odd_addresses(text: bytes) -> list[int] | None:
    """Return up to 32 addresses of any length; `None`: the text is something else."""
    words = text.split()
    if not 0 < len(words) <= LANES:
        return None
    try:
        numbers = [int(word, 16) for word in words]
    except ValueError:
        return None
    return numbers if all(0 <= number < 1 << 64 for number in numbers) else None
