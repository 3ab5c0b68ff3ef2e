"""Values of SQLite rows as Arrow columns of one type each."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pasta.collect.containers.sqlite_pages import Bytes, Numbers
from pasta.collect.containers.sqlite_records import BLOB, ONE, REAL, ZERO, Fields, pieces_at
from pasta.collect.losses import Losses
from pasta.collect.shaping.columns import Columns

_INTEGER_SIZES = np.array([0, 1, 2, 3, 4, 6, 8, 0, 0, 0, 0, 0, 0])
_INLINE = 12
_FIRST_MASK = np.array([(1 << 8 * min(n, 4)) - 1 for n in range(_INLINE + 1)], dtype="<u4")
_REST_MASK = np.array([(1 << 8 * max(n - 4, 0)) - 1 for n in range(_INLINE + 1)], dtype="<u8")
_UNREADABLE = "text that is no {encoding}: read with replacement characters"


class Values:
    """Makes columns of the values of rows.

    What is not of a column's type is read one by one, as `shaping.columns` does.

    Args:
        losses: where values that do not fit are counted.
        encoding: of texts.
    """

    def __init__(self, losses: Losses, encoding: str) -> None:
        self._losses = losses
        self._columns = Columns(losses)
        self._encoding = encoding

    def column(self, fields: Fields, place: int, kind: pa.DataType, name: str) -> pa.Array[Any]:
        """Return one column.

        Args:
            fields: the rows.
            place: of the column in them.
            kind: `int64`, `float64`, `string` or `binary`.
            name: what losses call it.
        """
        kinds = fields.kinds[place]
        if not kinds.any():
            return pa.nulls(len(fields.body), kind)  # type: ignore[call-overload,no-any-return]
        if pa.types.is_integer(kind):
            return self._integers(fields, place, name)
        if pa.types.is_floating(kind):
            return self._floats(fields, place, name)
        return self._texts(fields, place, kind, name)

    def _integers(self, fields: Fields, place: int, name: str) -> pa.Array[Any]:
        kinds = fields.kinds[place]
        if ((kinds == REAL) | (kinds > ONE)).any():
            return self._columns.numbers(self._values(fields, place), pa.int64(), name)
        return _masked(_whole_numbers(fields, place), kinds == 0, fields.form)

    def _floats(self, fields: Fields, place: int, name: str) -> pa.Array[Any]:
        kinds = fields.kinds[place]
        real, wrong = kinds == REAL, kinds > ONE
        self._losses.fault(f"{name} is not a number: read as null", int(wrong[fields.form].sum()))
        numbers = _whole_numbers(fields, place).astype(np.float64)
        if real.any():
            ends = fields.body + (fields.offsets[place] + 8 * real)[fields.form]
            bits = _words(fields.records.data, np.maximum(ends, 8))
            numbers = np.where(real[fields.form], bits.view(np.float64), numbers)
        return _masked(numbers, wrong | (kinds == 0), fields.form)

    def _texts(self, fields: Fields, place: int, kind: pa.DataType, name: str) -> pa.Array[Any]:
        kinds = fields.kinds[place]
        raw: pa.Array[Any]
        if ((kinds > 0) & (kinds < BLOB)).any():
            written = [
                value if value is None or isinstance(value, bytes) else str(value).encode()
                for value in self._values(fields, place)
            ]
            raw = pa.array(written, pa.binary())
        else:
            raw = _spans(fields, place)
        if pa.types.is_binary(kind):
            return raw
        if self._encoding == "utf-8":
            try:
                return raw.cast(pa.string())
            except pa.ArrowInvalid:
                pass
        return self._decoded(raw, name)

    def _decoded(self, raw: pa.Array[Any], name: str) -> pa.Array[Any]:
        texts, wrong = [], 0
        for value in raw.to_pylist():
            text = None if value is None else value.decode(self._encoding, "replace")
            wrong += text is not None and text.encode(self._encoding, "replace") != value
            texts.append(text)
        self._losses.fault(f"{name}: {_UNREADABLE.format(encoding=self._encoding)}", wrong)
        return pa.array(texts, pa.string())

    def _values(self, fields: Fields, place: int) -> list[Any]:
        """Return values as Python has them; texts as their bytes."""
        kinds = fields.kinds[place][fields.form].tolist()
        starts = (fields.body + fields.offsets[place][fields.form]).tolist()
        data = fields.records.data
        return [_value(data, kind, start) for kind, start in zip(kinds, starts, strict=True)]


def _value(data: Bytes, kind: int, start: int) -> Any:
    if kind in (ZERO, ONE):
        return kind - ZERO
    if kind == REAL:
        return struct.unpack(">d", data[start : start + 8].tobytes())[0]
    if kind >= BLOB:
        return data[start : start + (kind - 12) // 2].tobytes()
    size = int(_INTEGER_SIZES[kind])
    return (
        int.from_bytes(data[start : start + size].tobytes(), "big", signed=True) if size else None
    )


def _whole_numbers(fields: Fields, place: int) -> Numbers:
    """Return integers; what is none is 0."""
    kinds = np.minimum(fields.kinds[place], BLOB)
    size = _INTEGER_SIZES[kinds]
    if not size.any():
        ones: Numbers = (kinds == ONE).astype(np.int64)[fields.form]
        return ones
    spare = 64 - 8 * size
    if (size == size[0]).all():
        ends = fields.body + (fields.offsets[place] + size)[fields.form]
        words: Numbers = _words(fields.records.data, ends) << spare[0] >> spare[0]
        return words
    # Eight bytes before the body's first are its row's header, or the page's.
    ends = fields.body + (fields.offsets[place] + size)[fields.form]
    values: Numbers = _words(fields.records.data, ends) << np.minimum(spare, 63)[fields.form]
    values >>= spare.clip(max=63)[fields.form]
    constant = size == 0
    if constant.any():
        values = np.where(constant[fields.form], (kinds == ONE)[fields.form], values)
    return values


def _words(data: Bytes, ends: Numbers) -> Numbers:
    """Return the eight bytes before each of `ends` as big-endian integers."""
    words: Numbers = pieces_at(data, ends - 8, 8).view(np.int64).byteswap()
    return words


def _masked(values: NDArray[Any], null: NDArray[np.bool_], form: Numbers) -> pa.Array[Any]:
    column: pa.Array[Any] = pa.array(values, mask=null[form] if null.any() else None)
    return column


def _spans(fields: Fields, place: int) -> pa.Array[Any]:
    """Return texts or blobs, by way of Arrow's views of bytes.

    A view is the size and, up to 12 bytes, the text itself, else its first 4 bytes and where it
    stands.
    """
    data, form = fields.records.data, fields.form
    kinds = fields.kinds[place]
    sizes = np.maximum(kinds - 12, 0) >> 1
    size = sizes[form]
    starts = fields.body + fields.offsets[place][form]
    first = pieces_at(data, starts, 4).view(np.uint32)
    rest = pieces_at(data[4:], starts, 8).view(np.uint64)
    views = np.empty((len(starts), 2), dtype=np.uint64)
    views[:, 0] = (first & _FIRST_MASK[np.minimum(sizes, _INLINE)][form]).astype(np.uint64) << 32
    views[:, 0] |= size.view(np.uint64)
    inline = rest & _REST_MASK[np.minimum(sizes, _INLINE)][form]
    views[:, 1] = np.where(size <= _INLINE, inline, starts.view(np.uint64) << np.uint64(32))
    valid = pa.array((kinds != 0)[form]).buffers()[1] if (kinds == 0).any() else None
    buffers = [valid, pa.py_buffer(views.data), pa.py_buffer(data.data)]
    return pa.Array.from_buffers(pa.binary_view(), len(starts), buffers).cast(pa.binary())
