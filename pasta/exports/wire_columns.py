"""Writing many messages at once in the wire format of protocol buffers, field by field.

A part is what one field of all messages becomes: a matrix of bytes with a row for each message, and how
many bytes of each row count. Parts side by side are messages.

Source: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pasta.exports.wire import varint

_VARINT_BYTES = 10
_MORE = 1 << 7

Present = NDArray[np.bool_] | None
"""Which messages have a field; `None`: all."""


class Part(NamedTuple):
    """Bytes of each message, of which the first `sizes` count."""

    cells: NDArray[np.uint8]
    sizes: NDArray[np.int16]


def constant(content: bytes, rows: int, present: Present = None) -> Part:
    """Return the same bytes for each of so many messages."""
    cells = np.broadcast_to(np.frombuffer(content, np.uint8), (rows, len(content)))
    return Part(cells, _where(np.full(rows, len(content), np.int16), present))


def number_fields(number: int, values: NDArray[Any], present: Present = None) -> Part:
    """Return a field that is a varint; negative numbers are two's complement of 64 bits."""
    return _tagged(
        number << 3, _varints(values.astype(np.int64, copy=False).view(np.uint64)), present
    )


def unsigned_fields(number: int, values: NDArray[np.uint64], present: Present = None) -> Part:
    """Return a field that is a varint of an unsigned number."""
    return _tagged(number << 3, _varints(values), present)


def fixed_fields(number: int, values: NDArray[np.uint64], present: Present = None) -> Part:
    """Return a field of 64 bits, not packed."""
    cells = np.ascontiguousarray(values, "<u8").view(np.uint8).reshape(-1, 8)
    return _tagged(number << 3 | 1, Part(cells, np.full(len(values), 8, np.int16)), present)


def double_fields(number: int, values: NDArray[np.float64]) -> Part:
    """Return a field that is a 64-bit real."""
    return fixed_fields(number, np.ascontiguousarray(values, "<f8").view("<u8"))


def messages(number: int, parts: Sequence[Part], present: Present = None) -> list[Part]:
    """Return a field that is a message made of parts; their bytes do not count where it is absent."""
    parts = [Part(cells, _where(sizes, present)) for cells, sizes in parts]
    length = _varints(_total(parts).astype(np.uint64))
    return [_tagged(number << 3 | 2, length, present), *parts]


def joined(parts: Sequence[Part]) -> pa.Array[Any]:
    """Return the bytes of each message."""
    cells = np.concatenate([cells for cells, _ in parts], axis=1)
    counted = np.ones(cells.shape, np.bool_)
    first = 0
    for part, sizes in parts:
        last = first + part.shape[1]
        if sizes.min() < part.shape[1]:
            counted[:, first:last] = np.arange(part.shape[1], dtype=np.int16) < sizes[:, None]
        first = last
    content = cells[counted]
    sizes = _total(parts)
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    buffers = [None, pa.py_buffer(offsets.data), pa.py_buffer(content.data)]
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), buffers)


def _total(parts: Sequence[Part]) -> NDArray[np.int16]:
    total: NDArray[np.int16] = np.sum([sizes for _, sizes in parts], axis=0, dtype=np.int16)
    return total


def _where(sizes: NDArray[np.int16], present: Present) -> NDArray[np.int16]:
    return sizes if present is None else sizes * present


def _tagged(tag: int, part: Part, present: Present) -> Part:
    head = np.frombuffer(varint(tag), np.uint8)
    rows = len(part.cells)
    cells = np.concatenate([np.broadcast_to(head, (rows, len(head))), part.cells], axis=1)
    return Part(cells, _where(part.sizes + len(head), present))


def _varints(values: NDArray[np.uint64]) -> Part:
    bits = int(values.max()).bit_length() if len(values) else 0
    width = min(max(-(-bits // 7), 1), _VARINT_BYTES)
    sizes = np.ones(len(values), np.int16)
    for place in range(1, width):
        sizes += values >= np.uint64(1 << 7 * place)
    cells = np.empty((len(values), width), np.uint8)
    for place in range(width):
        cells[:, place] = (values >> np.uint64(7 * place)).astype(np.uint8) | np.uint8(_MORE)
    cells[np.arange(len(values)), sizes - 1] &= np.uint8(_MORE - 1)
    return Part(cells, sizes)
