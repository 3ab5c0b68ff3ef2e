"""Columns from decoded values of any type: fast where they fit, value by value where not."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from pasta.collect.losses import Losses


class Columns:
    """Makes columns and counts the values that do not fit.

    Args:
        losses: where values that do not fit are counted.
    """

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._renumbered: dict[str, dict[Any, int]] = {}

    def numbers(self, values: Sequence[Any], kind: pa.DataType, name: str) -> pa.Array[Any]:
        """Return whole numbers as type `kind`; what is none is null and counted."""
        try:
            return pa.array(values, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            pass
        low, high = _range(kind)
        fitted = [_whole_number(value) for value in values]
        fitted = [value if value is None or low <= value <= high else None for value in fitted]
        lost = sum(
            1
            for value, kept in zip(values, fitted, strict=True)
            if kept is None and value is not None
        )
        self._losses.fault(f"{name} is not a whole number that fits: read as null", lost)
        return pa.array(fitted, kind)

    def ids(self, values: Sequence[Any], name: str) -> pa.Array[Any]:
        """Return ids as u64: absent and negative ones are 0, too large ones get a new number."""
        try:
            return pa.array(values, pa.uint64()).fill_null(0)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            return pa.array([self._id(value, name) for value in values], pa.uint64())

    def _id(self, value: Any, name: str) -> int:
        number = _whole_number(value)
        if number is not None and number < 1 << 64:
            return max(number, 0)
        if value is None:
            return 0
        if isinstance(value, list | dict):
            self._losses.fault(f"{name} that is a list or an object: read as unknown")
            return 0
        return self.renumber(value, name)

    def renumber(self, value: Any, name: str, *, sign: int = 1) -> int:
        """Return a number of its own for an id that is text or too large, and count it."""
        known = self._renumbered.setdefault(name, {})
        if value not in known:
            known[value] = sign * stable_number(str(value))
            self._losses.skip(f"{name} that is text or too large: renumbered")
        return known[value]

    def texts(self, values: Sequence[Any]) -> pa.Array[Any]:
        """Return texts; what is none is written out."""
        try:
            return pa.array(values, pa.string())
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return pa.array(
                [
                    value if value is None or isinstance(value, str) else str(value)
                    for value in values
                ],
                pa.string(),
            )


def stable_number(text: str) -> int:
    """Return a number from 2**61 to 2**62 that stands for `text` wherever it is met."""
    digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=8).digest()
    return (1 << 61) | int.from_bytes(digest, "big") >> 3


class Interned:
    """A column of lists that repeat, parsed once each.

    Args:
        parse: makes a list from the raw text; what it fails on is null and counted.
        kind: the column's type, which takes all that `parse` gives.
        name: what the lists are called.
        losses: where texts that are no such list are counted.
    """

    _HELD_MAX = 1 << 16
    _UNREADABLE = object()

    def __init__(
        self, parse: Callable[[bytes], Any], kind: pa.DataType, name: str, losses: Losses
    ) -> None:
        self._parse = parse
        self._kind = kind
        self._name = name
        self._losses = losses
        self._known: dict[bytes, Any] = {}

    def column(self, raws: Iterable[Any]) -> pa.Array[Any]:
        """Return the column of the values whose raw texts are `raws`; empty text is null."""
        if len(self._known) > self._HELD_MAX:
            self._known.clear()
        places: dict[bytes, int] = {}
        indices = [places.setdefault(raw, len(places)) for raw in map(bytes, raws)]
        values = [self._value(raw) for raw in places]
        lost = {place for place, value in enumerate(values) if value is self._UNREADABLE}
        if lost:
            values = [None if place in lost else value for place, value in enumerate(values)]
            count = sum(index in lost for index in indices)
            self._losses.skip(f"{self._name} that is no whole list: read as null", count)
        return pa.array(values, self._kind).take(pa.array(indices, pa.int32()))

    def _value(self, raw: bytes) -> Any:
        if raw not in self._known:
            try:
                self._known[raw] = self._parse(raw) if raw else None
            except (ValueError, TypeError, RecursionError):
                self._known[raw] = self._UNREADABLE
        return self._known[raw]


def _whole_number(value: Any) -> int | None:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and not value.is_integer():
        return None
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _range(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_unsigned_integer(kind):
        return 0, (1 << kind.bit_width) - 1
    return -(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1
