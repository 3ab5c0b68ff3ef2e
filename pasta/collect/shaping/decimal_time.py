"""Microseconds written as decimal text, to integer nanoseconds, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

LIMIT = 1 << 61
"""Times at or beyond this many ns (73 years) from zero are not believed."""

_NEWLINE, _POINT, _ZERO, _EIGHT, _NINE = b"\n.089"
_DIGITS_MAX = 16
_INT64_DIGITS = 18
_SCALES = np.array([1000, 100, 10, 1])


def nanoseconds(texts: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Convert decimal microseconds to nanoseconds without going through a rounded float.

    Args:
        texts: bytes-like JSON numbers, as `1672924881307000.123`.

    Returns:
        The nanoseconds, and whether each text is a finite number less than `LIMIT` ns in size.
        Digits finer than a nanosecond are rounded half to even.
    """
    joined = b"\n".join(texts) + b"\n"
    characters = np.frombuffer(joined, dtype=np.uint8)
    ends = np.flatnonzero(characters == _NEWLINE)
    if len(ends) != len(texts):
        return _each(texts)
    points = np.flatnonzero(characters == _POINT)
    rows = np.searchsorted(ends, points) if len(points) else points
    lengths = np.diff(ends, prepend=-1) - 1
    fraction = np.zeros(len(texts), dtype=np.int64)
    fraction[rows] = ends[rows] - points - 1
    digits = lengths.copy()
    digits[rows] -= 1
    odd = (digits - fraction < 1) | (digits - fraction > _DIGITS_MAX) | (fraction > 3)
    odd |= (digits > _INT64_DIGITS) & (characters[ends - lengths] > _EIGHT)
    odd[rows[1:][rows[1:] == rows[:-1]]] = True
    plain = joined.translate(None, b".\n")
    if not plain.isdigit():
        foreign = (characters < _ZERO) | (characters > _NINE)
        foreign[ends] = foreign[points] = False
        odd[np.searchsorted(ends, np.flatnonzero(foreign))] = True
    if odd.any():
        return _some_odd(texts, odd)
    result = _whole_numbers(plain, digits)
    scale = _SCALES[fraction]
    valid = result <= (LIMIT - 1) // scale
    return np.where(valid, result * scale, 0), valid


def _whole_numbers(text: bytes, digits: NDArray[np.int64]) -> NDArray[np.int64]:
    """Convert numbers of `digits` digits each that follow one another without a separator."""
    offsets = np.concatenate(([0], np.cumsum(digits))).astype(np.int32)
    texts = pa.StringArray.from_buffers(
        len(digits), pa.py_buffer(offsets.tobytes()), pa.py_buffer(text)
    )
    numbers: NDArray[np.int64] = texts.cast(pa.int64()).to_numpy()
    return numbers


def _some_odd(
    texts: Sequence[Any], odd: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    result = np.zeros(len(texts), dtype=np.int64)
    valid = np.zeros(len(texts), dtype=bool)
    for rows, convert in ((np.flatnonzero(odd), _each), (np.flatnonzero(~odd), nanoseconds)):
        if len(rows):
            result[rows], valid[rows] = convert([texts[row] for row in rows.tolist()])
    return result, valid


def _each(texts: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Convert texts of any form one by one: signs, exponents, quotes, null, more digits."""
    values = np.zeros(len(texts), dtype=np.int64)
    valid = np.zeros(len(texts), dtype=bool)
    for row, text in enumerate(texts):
        try:
            exact = Decimal(bytes(text).decode().strip().strip('"'))
            if exact.adjusted() > _DIGITS_MAX:  # or 1e999999 would be written out
                continue
            value = int(exact.scaleb(3).to_integral_value(ROUND_HALF_EVEN))
        except (ArithmeticError, ValueError):
            continue
        if abs(value) < LIMIT:
            values[row], valid[row] = value, True
    return values, valid
