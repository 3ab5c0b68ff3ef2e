"""Columns of a batch as buffers in Arrow's layout, from numbers, texts and lists of Python or numpy."""

from __future__ import annotations

import itertools
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .channel_layout import (
    ALIGNMENT,
    BOOL,
    FORMATS,
    I64,
    LIST_I64,
    LIST_UTF8,
    REGION_BYTES,
    REGIONS_AT,
    UTF8,
    WIDTHS,
    TableLayout,
    align,
)

_KINDS = {letter: kind for kind in ("BHILQN", "bhilqn", "fd") for letter in kind}
_ASCII_BITS = bytes.maketrans(b"\0\1", b"01")

Flags = Sequence[bool] | bytes | memoryview | Any
Values = Sequence[Any] | Any


class Nullable(NamedTuple):
    """A column of numbers of which some are null.

    Attributes:
        values: a buffer of the column's type (numpy array, `array.array`), one item for each row.
        valid: one byte or bool for each row; false: null.
    """

    values: Values
    valid: Flags


class Encoded:
    """A batch as buffers in Arrow's layout, of which any range of rows can be put into a slot.

    Raises:
        ValueError: the table has no such column, or columns differ in length.
        TypeError: a column holds what its type does not.
    """

    def __init__(self, layout: TableLayout, columns: Mapping[str, Values | Nullable]) -> None:
        self.rows = _common_length(columns)
        self.layout = layout
        self.data_at = align(REGIONS_AT + REGION_BYTES * layout.regions)
        self.overhead = self.data_at + ALIGNMENT * layout.regions
        self._columns: list[tuple[int, _Bits | None, _Body]] = []
        for name, values in columns.items():
            if name not in layout.columns:
                raise ValueError(f"{layout.name} has no column '{name}'")
            code, region = layout.columns[name]
            try:
                self._columns.append((region, *_encode(code, values)))
            except (TypeError, AttributeError, OverflowError) as error:
                raise TypeError(f"{layout.name}.{name}: {error}") from error

    def size(self, start: int, stop: int) -> int:
        """Return the bytes of a slot that rows `start` to `stop` take."""
        total = self.data_at
        for _, valid, body in self._columns:
            if valid is not None:
                total += sum(map(align, valid.sizes(start, stop)))
            total += sum(map(align, body.sizes(start, stop)))
        return total

    def put(self, slot: memoryview, start: int, stop: int) -> int:
        """Copy rows `start` to `stop` into `slot` and list the regions; return the bytes used."""
        regions = array("Q", bytes(REGION_BYTES * self.layout.regions))
        at = self.data_at
        for region, valid, body in self._columns:
            nulls = [None] if valid is None else valid.buffers(start, stop)
            for place, buffer in enumerate([*nulls, *body.buffers(start, stop)], region):
                if buffer is not None:
                    slot[at : at + len(buffer)] = buffer
                    regions[place] = at | len(buffer) << 32
                    at += align(len(buffer))
        listed = memoryview(regions).cast("B")
        slot[REGIONS_AT : REGIONS_AT + len(listed)] = listed
        return at


class _Bits:
    """Flags, one byte each, that are packed to bits."""

    def __init__(self, flags: bytes | memoryview) -> None:
        self.flags = flags

    def sizes(self, start: int, stop: int) -> tuple[int, ...]:
        return ((stop - start + 7) // 8,)

    def buffers(self, start: int, stop: int) -> Iterable[memoryview]:
        flags = self.flags[start:stop]
        size = (stop - start + 7) // 8
        numpy: Any = sys.modules.get("numpy")
        if hasattr(numpy, "packbits"):
            bits = numpy.packbits(numpy.frombuffer(flags, "u1"), bitorder="little")
            return (memoryview(bits),)
        digits = bytes(flags).translate(_ASCII_BITS)[::-1] or b"0"
        return (memoryview(int(digits, 2).to_bytes(size, "little")),)


class _Fixed:
    """Numbers of one width."""

    def __init__(self, data: memoryview, width: int) -> None:
        self.data = data
        self.width = width

    def sizes(self, start: int, stop: int) -> tuple[int, ...]:
        return (self.width * (stop - start),)

    def buffers(self, start: int, stop: int) -> Iterable[memoryview]:
        return (self.data[self.width * start : self.width * stop],)


class _Text:
    """Texts, one after the other."""

    def __init__(self, texts: Iterable[str]) -> None:
        encoded = [text.encode("utf-8", "replace") for text in texts]
        self.offsets = _offsets(encoded)
        self.data = memoryview(b"".join(encoded))

    def sizes(self, start: int, stop: int) -> tuple[int, ...]:
        return (4 * (stop - start + 1), self.offsets[stop] - self.offsets[start])

    def buffers(self, start: int, stop: int) -> Iterable[memoryview]:
        first, last = self.offsets[start], self.offsets[stop]
        return (_from_zero(self.offsets, start, stop), self.data[first:last])


class _List:
    """Lists, with their items one after the other."""

    def __init__(self, lists: Sequence[Sequence[Any]], items: _Fixed | _Text) -> None:
        self.offsets = _offsets(lists)
        self.items = items

    def sizes(self, start: int, stop: int) -> tuple[int, ...]:
        items = self.items.sizes(self.offsets[start], self.offsets[stop])
        return (4 * (stop - start + 1), *items)

    def buffers(self, start: int, stop: int) -> Iterable[memoryview]:
        items = self.items.buffers(self.offsets[start], self.offsets[stop])
        return (_from_zero(self.offsets, start, stop), *items)


_Body = _Bits | _Fixed | _Text | _List
"""The values of a column: of rows `start` to `stop`, `buffers` gives those that Arrow has for its type, in its order,
without that of nulls, and `sizes` the bytes of each."""


def _offsets(parts: Sequence[Sequence[Any]]) -> array[int]:
    return array("i", itertools.accumulate(map(len, parts), initial=0))


def _from_zero(offsets: array[int], start: int, stop: int) -> memoryview:
    base = offsets[start]
    part = offsets[start : stop + 1]
    return memoryview(part if base == 0 else array("i", [at - base for at in part])).cast("B")


def _encode(code: int, values: Values | Nullable) -> tuple[_Bits | None, _Body]:
    if isinstance(values, Nullable):
        return _Bits(_flags(values.valid)), _encode(code, values.values)[1]
    if isinstance(values, list | tuple):
        return _encode_sequence(code, values)
    if code == BOOL:
        return None, _Bits(_flags(values))
    if code in FORMATS:
        return None, _Fixed(_buffer(code, values), WIDTHS[code])
    raise TypeError("text and lists are given as a list or tuple")


def _encode_sequence(code: int, values: Sequence[Any]) -> tuple[_Bits | None, _Body]:
    valid = None
    if any(value is None for value in values):
        empty: Any = "" if code == UTF8 else () if code > UTF8 else 0
        valid = _Bits(bytes(value is not None for value in values))
        values = [empty if value is None else value for value in values]
    if code == UTF8:
        return valid, _Text(values)
    if code == LIST_UTF8:
        return valid, _List(values, _Text(itertools.chain.from_iterable(values)))
    if code == LIST_I64:
        items = array("q", itertools.chain.from_iterable(values))
        return valid, _List(values, _Fixed(memoryview(items).cast("B"), WIDTHS[I64]))
    if code == BOOL:
        return valid, _Bits(_flags(values))
    return valid, _Fixed(memoryview(array(FORMATS[code], values)).cast("B"), WIDTHS[code])


def _flags(values: Flags) -> bytes | memoryview:
    if isinstance(values, list | tuple):
        return bytes(map(bool, values))
    view: memoryview = memoryview(values)  # type: ignore[arg-type]
    if view.format not in ("?", "B"):
        raise TypeError(f"flags are bool or bytes, not format '{view.format}'")
    return view.cast("B") if view.contiguous else view.tobytes()


def _buffer(code: int, values: Any) -> memoryview:
    view = memoryview(values)
    alike = _KINDS.get(view.format) == _KINDS[FORMATS[code]]
    if not alike or view.itemsize != WIDTHS[code] or view.ndim != 1:
        raise TypeError(
            f"a buffer of format '{view.format}' where the column holds '{FORMATS[code]}'"
        )
    return view.cast("B") if view.contiguous else memoryview(view.tobytes())


def length(values: Values | Nullable) -> int:
    """Return the number of rows of a column."""
    return len(values.values if isinstance(values, Nullable) else values)


def _common_length(columns: Mapping[str, Values | Nullable]) -> int:
    lengths = {length(values) for values in columns.values()}
    lengths |= {len(c.valid) for c in columns.values() if isinstance(c, Nullable)}
    if len(lengths) > 1:
        raise ValueError(f"columns of different lengths: {sorted(lengths)}")
    return lengths.pop() if lengths else 0
