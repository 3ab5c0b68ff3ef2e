"""Parquet files of integers that come in runs, written from the runs instead of row by row.

A table of accesses repeats most of its values for all lanes of a warp. Parquet has a form for that:
a dictionary, and runs of indices into it. General writers look for runs in rows that were made out
of them, which takes longer than all else; here they are handed over as they are.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pasta.collect.parquet_delta import delta_packed
from pasta.collect.parquet_thrift import Value, binary, i32, i64, items, struct, varint

_MAGIC = b"PAR1"
_PLAIN, _RLE, _DELTA_BINARY_PACKED, _RLE_DICTIONARY = 0, 3, 5, 8
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_CODECS = {"uncompressed": 0, "zstd": 6, "lz4_raw": 7}
_OPTIONAL = 1
_INT32, _INT64 = 1, 2
_UNSIGNED = {8: 11, 32: 13, 64: 14}
"""Bits of an unsigned integer -> Parquet's converted type."""
_CREATED_BY = "pasta"

Codec = Literal["zstd", "lz4_raw", "uncompressed"]
Integers = NDArray[Any]


@dataclass(frozen=True)
class Runs:
    """A column in which each of `values` stands `counts` times in a row.

    Attributes:
        values: at most 65,536 different ones.
        counts: from 1 to 63 each; one number: that is the count of each, whatever it is.
    """

    values: Integers
    counts: NDArray[np.uint8] | int


@dataclass(frozen=True)
class Codes:
    """A column of numbers from 0 to below `size`, of one byte each; `size` is at most 256."""

    values: NDArray[np.uint8]
    size: int


@dataclass(frozen=True)
class Numbers:
    """A column that has a number for each row."""

    values: Integers


Column = Runs | Codes | Numbers


class RunsFile:
    """A Parquet file, written row group by row group; it is one only after `close`.

    Args:
        path: the file.
        schema: columns of integers of 1, 4 or 8 bytes, none of them null anywhere.
        codec: `zstd`, `lz4_raw` or `uncompressed`.
        level: the codec's level.
    """

    def __init__(
        self, path: Path, schema: pa.Schema, *, codec: Codec = "zstd", level: int | None = 1
    ) -> None:
        self._schema = schema
        self._codec = _CODECS[codec]
        self._compressor = None if codec == "uncompressed" else pa.Codec(codec, level)
        self._file = path.open("wb", buffering=0)
        self._unwritten: list[bytes | memoryview] = []
        self._at = 0
        self._groups: list[Value] = []
        self._rows = 0
        self._put(_MAGIC)

    def write(self, columns: Mapping[str, Column], rows: int) -> None:
        """Write one row group of at least one row, with every column of the schema."""
        began = self._at
        chunks, size = [], 0
        for field in self._schema:
            chunk, chunk_size = self._chunk(field, columns[field.name], rows)
            chunks.append(chunk)
            size += chunk_size
        group = {1: items(chunks), 2: i64(size), 3: i64(rows), 5: i64(began)}
        self._groups.append(struct(group | {6: i64(self._at - began)}))
        self._rows += rows
        self._flush()

    def close(self) -> int:
        """Write the footer; return the size of the file."""
        footer = struct(
            {
                1: i32(1),
                2: items([_root(self._schema), *(_element(field) for field in self._schema)]),
                3: i64(self._rows),
                4: items(self._groups),
                5: items([_arrow_schema(self._schema)]),
                6: binary(_CREATED_BY),
                7: items([struct({1: struct({})})] * len(self._schema)),
            }
        ).bytes
        self._put(footer + len(footer).to_bytes(4, "little") + _MAGIC)
        self._flush()
        self._file.close()
        return self._at

    def abandon(self) -> None:
        """Close the file as it is."""
        self._file.close()

    def _put(self, data: bytes | memoryview) -> None:
        self._unwritten.append(data)
        self._at += len(data)

    def _flush(self) -> None:
        """Write what was put, all at once: threads that share an interpreter wait at each call."""
        left = memoryview(b"".join(self._unwritten))
        self._unwritten.clear()
        while left:
            left = left[self._file.write(left) :]

    def _chunk(self, field: pa.Field[Any], column: Column, rows: int) -> tuple[Value, int]:
        """Write a column's pages; return what the footer tells of them, and their plain size."""
        began = self._at
        known, data = _encoded(column, rows)
        encoding = _DELTA_BINARY_PACKED if isinstance(column, Numbers) else _RLE_DICTIONARY
        size, dictionary, encodings = 0, {}, [_RLE, encoding]
        if encoding == _RLE_DICTIONARY:
            encodings.append(_PLAIN)  # that of the dictionary
            told = {1: i32(len(known)), 2: i32(_PLAIN)}
            size += self._page(_DICTIONARY_PAGE, 7, told, _plain(known).tobytes())
            dictionary = {11: i64(began)}
        at = self._at
        told = {1: i32(rows), 2: i32(encoding), 3: i32(_RLE), 4: i32(_RLE)}
        size += self._page(_DATA_PAGE, 5, told, _with_levels(data, rows))
        chunk = {
            1: i32(_physical(field)),
            2: items([i32(each) for each in encodings]),
            3: items([binary(field.name)]),
            4: i32(self._codec),
            5: i64(rows),
            6: i64(size),
            7: i64(self._at - began),
            9: i64(at),
            **dictionary,
            12: _statistics(known),
        }
        return struct({2: i64(began), 3: struct(chunk)}), size

    def _page(
        self, kind: int, field: int, told: Mapping[int, Value], data: bytes | memoryview
    ) -> int:
        """Write a page; return its size before compression, with its header."""
        packed = data
        if self._compressor is not None:
            packed = self._compressor.compress(data, asbytes=True)
        head = struct({1: i32(kind), 2: i32(len(data)), 3: i32(len(packed)), field: struct(told)})
        self._put(head.bytes)
        self._put(packed)
        return len(head.bytes) + len(data)


def _encoded(column: Column, rows: int) -> tuple[Integers, bytes | Integers]:
    """Return a column's numbers and their bytes, or its dictionary and the indices into it.

    These are their width in bits, and then runs of them.
    """
    if isinstance(column, Numbers):
        return column.values, delta_packed(_plain(column.values))
    if isinstance(column, Codes):
        groups = -(-rows // 8)
        packed = np.frombuffer(b"\x08" + varint(groups << 1 | 1), np.uint8), column.values
        rest = np.zeros(8 * groups - rows, np.uint8)
        return np.arange(column.size, dtype=np.uint8), np.concatenate([*packed, rest])
    known, indices = _dictionary(column.values)
    if len(known) == 1:
        return known, b"\x08" + varint(rows << 1) + b"\0"
    index = "<u1" if len(known) <= 1 << 8 else "<u2"
    heads = _run_heads(column.counts)
    runs = np.empty(len(column.values), [("head", f"V{heads.itemsize}"), ("index", index)])
    runs["head"] = heads
    runs["index"] = indices
    return known, bytes([8 * np.dtype(index).itemsize]) + runs.tobytes()


def _dictionary(values: Integers) -> tuple[Integers, Integers]:
    """Return the different values, and the place of each value among them."""
    if np.all(values[1:] > values[:-1]):
        return values, np.arange(len(values))
    entries = pa.array(values).dictionary_encode()
    return entries.dictionary.to_numpy(), entries.indices.to_numpy()


def _run_heads(counts: NDArray[np.uint8] | int) -> Integers:
    if isinstance(counts, int):
        head = varint(counts << 1)
        return np.frombuffer(head, f"V{len(head)}")
    return (counts << 1).astype(np.uint8).view("V1")


def _with_levels(data: bytes | Integers, rows: int) -> bytes | memoryview:
    """Return a page: definition levels that say of every row that it is not null, and the data."""
    run = varint(rows << 1) + b"\x01"
    levels = len(run).to_bytes(4, "little") + run
    if isinstance(data, bytes):
        return levels + data
    parts = np.frombuffer(levels, np.uint8), data.view(np.uint8)
    return np.concatenate(parts).data  # which other threads need not wait for


def _plain(numbers: Integers) -> Integers:
    """Return numbers as Parquet has them: of 4 or 8 bytes."""
    return numbers if numbers.itemsize >= 4 else numbers.astype(np.int32)


def _statistics(numbers: Integers) -> Value:
    least, most = (_plain(end.reshape(1)).tobytes() for end in (numbers.min(), numbers.max()))
    return struct({3: i64(0), 5: binary(most), 6: binary(least)})


def _root(schema: pa.Schema) -> Value:
    return struct({4: binary("schema"), 5: i32(len(schema))})


def _element(field: pa.Field[Any]) -> Value:
    told = {1: i32(_physical(field)), 3: i32(_OPTIONAL), 4: binary(field.name)}
    if pa.types.is_unsigned_integer(field.type):
        told[6] = i32(_UNSIGNED[field.type.bit_width])
    return struct(told)


def _physical(field: pa.Field[Any]) -> int:
    return _INT64 if field.type.bit_width == 64 else _INT32


def _arrow_schema(schema: pa.Schema) -> Value:
    """Return the schema as Arrow's own readers look for it."""
    serialized = base64.b64encode(schema.serialize().to_pybytes())
    return struct({1: binary("ARROW:schema"), 2: binary(serialized)})
