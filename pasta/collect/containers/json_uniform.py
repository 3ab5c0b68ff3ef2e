"""Objects of JSON that differ only in their numbers, decoded column by column.

Programs write a record of one kind with the same keys in the same order. Where such a run of text, its digits
taken out, is the first record over and over, its digits alone are the values; they are turned into
numbers all at once, three times as fast as record by record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_DIGITS = b"0123456789"
_NEWLINE = ord("\n")
_ALL_BUT_NUMBERS = bytes(set(range(256)) - set(_DIGITS) - set(b":"))
_COLONS_TO_NEWLINES = bytes.maketrans(b":", b"\n")
_RUN_OF_DIGITS = re.compile(rb"[0-9]+")


class UniformRecords:
    """Records of one shape, all of whose values are whole numbers that are not negative.

    Args:
        numbers: a row for each record, u64.
        places: path of a value, as `dispatch_info.grid_size.x`, to its column.
    """

    def __init__(self, numbers: NDArray[np.uint64], places: Mapping[str, int]) -> None:
        self._numbers = numbers
        self._places = places

    def __len__(self) -> int:
        return len(self._numbers)

    def column(self, path: str) -> NDArray[np.uint64] | None:
        """Return the values at a path; `None`: the records have no such value."""
        place = self._places.get(path)
        return None if place is None else self._numbers[:, place]


def uniform_records(block: bytes, following: re.Pattern[bytes]) -> UniformRecords | None:
    """Decode objects that are separated by commas; `None` where they are not of one shape.

    Args:
        block: the objects, without what stands before the first and after the last.
        following: matches the end of one and what stands before the next.
    """
    boundary = following.search(block)
    if boundary is None:
        return None
    first = block[: boundary.start() + 1]
    places = _places(first)
    if places is None:
        return None
    end, between = block[: boundary.end()].translate(None, _DIGITS), boundary.end()
    skeleton = block.translate(None, _DIGITS) + block[boundary.start() + 1 : between]
    count, rest = divmod(len(skeleton), len(end))
    if rest or skeleton != end * count:
        return None
    numbers = _numbers(block)
    if numbers is None or len(numbers) != count * len(places):
        return None
    return UniformRecords(numbers.reshape(count, len(places)), places)


def _places(record: bytes) -> dict[str, int] | None:
    """Return path and ordinal of each value; `None` where one is no plain whole number."""
    try:
        values = dict(_leaves(msgspec.json.decode(record)))
    except (msgspec.DecodeError, RecursionError, TypeError):
        return None
    if not all(type(value) is int and value >= 0 for value in values.values()):
        return None
    if not values or len(_RUN_OF_DIGITS.findall(record)) != len(values):
        return None
    return {path: place for place, path in enumerate(values)}


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else key)
    else:
        yield path, value


def _numbers(text: bytes) -> NDArray[np.uint64] | None:
    """Return every number of a text in which each stands behind a colon."""
    lines = text.translate(_COLONS_TO_NEWLINES, _ALL_BUT_NUMBERS) + b"\n"
    ends = np.flatnonzero(np.frombuffer(lines, dtype=np.uint8) == _NEWLINE)
    lengths = np.diff(ends) - 1
    lengths = lengths[lengths > 0]
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    texts = pa.StringArray.from_buffers(
        len(lengths), pa.py_buffer(offsets.tobytes()), pa.py_buffer(lines.translate(None, b"\n"))
    )
    try:
        numbers: NDArray[np.uint64] = texts.cast(pa.uint64()).to_numpy()
    except pa.ArrowInvalid:
        return None
    return numbers
