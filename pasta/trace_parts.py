"""The files in which a table's rows wait until its trace is finished.

Every batch in them is sorted by `ts`, so that a slice of time is one run of rows of each batch. While
a program is recorded they are Parquet, which everybody can read; else they are Arrow files, which
cost a third of the time to write and to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pasta.schema import arrow_schema

_ARROW = ".arrow"
_PARQUET = ".parquet"
LATEST = (1 << 63) - 1
"""The time that stands for none: later than all others."""


def part_name(number: int, *, readable: bool) -> str:
    """Return the name of a table's part; `readable`: by others, while it is recorded."""
    return f"part-{number:06d}{_PARQUET if readable else _ARROW}"


def part_files(folder: Path) -> list[Path]:
    """Return the closed parts in the folder of a table, in the order in which they were written."""
    return sorted(folder.glob("part-*"))


class PartSink(Protocol):
    """What batches are written to."""

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append rows."""

    def close(self) -> None:
        """Write what makes the file readable."""


def create_part(path: Path, table: str) -> PartSink:
    """Open a new part of `table`, of the kind that its name tells."""
    if path.suffix == _PARQUET:
        return parquet_writer(path, table, compression="lz4")
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    return cast(PartSink, pa.ipc.new_file(str(path), arrow_schema(table), options=options))


def parquet_writer(
    path: Path, table: str, *, compression: Literal["lz4", "zstd"]
) -> pq.ParquetWriter:
    """Return a writer of `table`: texts by dictionaries, long numbers by their differences.

    Most long numbers are times, ids and addresses, which repeat little and grow steadily.
    """
    schema = arrow_schema(table)
    texts = [
        field.name if pa.types.is_string(field.type) else f"{field.name}.list.element"
        for field in schema
        if pa.types.is_string(field.type) or pa.types.is_list(field.type)
    ]
    differences = {
        field.name: "DELTA_BINARY_PACKED"
        for field in schema
        if pa.types.is_int64(field.type) or pa.types.is_uint64(field.type)
    }
    return pq.ParquetWriter(
        path,
        schema,
        compression=compression,
        use_dictionary=texts,  # type: ignore[arg-type]
        column_encoding=differences,
    )


class Part(Protocol):
    """A closed part.

    Attributes:
        batches: how many it has.
    """

    batches: int

    def times(self, batch: int) -> pa.Array[Any] | pa.ChunkedArray[Any]:
        """Return the column `ts` of one batch."""

    def read(self, batch: int) -> pa.Table:
        """Return one batch."""


def open_part(path: Path) -> Part:
    """Open a closed part."""
    return _ParquetPart(path) if path.suffix == _PARQUET else _ArrowPart(path)


class _ParquetPart:
    def __init__(self, path: Path) -> None:
        self._file = pq.ParquetFile(path)
        self.batches = self._file.num_row_groups

    def times(self, batch: int) -> pa.ChunkedArray[Any]:
        return self._file.read_row_group(batch, columns=["ts"]).column(0)

    def read(self, batch: int) -> pa.Table:
        return self._file.read_row_group(batch)


class _ArrowPart:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = pa.ipc.open_file(str(path))
        self.batches = self._file.num_record_batches
        self._times = self._file

    def times(self, batch: int) -> pa.Array[Any]:
        if self._times is self._file:
            place = self._file.schema.get_field_index("ts")
            options = pa.ipc.IpcReadOptions(included_fields=[place])
            self._times = pa.ipc.open_file(str(self._path), options=options)
        return self._times.get_batch(batch).column(0)

    def read(self, batch: int) -> pa.Table:
        return pa.Table.from_batches([self._file.get_batch(batch)])


def sorted_batch(pending: Sequence[pa.Table]) -> pa.RecordBatch:
    """Return the rows of tables of one schema as one batch, in order of `ts` where they have it."""
    [batch] = pa.concat_tables(pending).combine_chunks().to_batches()
    place = batch.schema.get_field_index("ts")
    if place < 0:
        return batch
    times = known_times(batch.column(place))
    if (times[1:] >= times[:-1]).all():
        return batch
    order = cast(pa.Int64Array, pa.array(np.argsort(times, kind="stable")))
    return batch.take(order)


def known_times(column: pa.Array[Any] | pa.ChunkedArray[Any]) -> NDArray[np.int64]:
    """Return times in which rows without one are later than all others."""
    return cast("NDArray[np.int64]", column.fill_null(pa.scalar(LATEST, pa.int64())).to_numpy())
