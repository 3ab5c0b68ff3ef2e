"""Sorting a finished table: the files that grew while it was recorded become sorted ones.

A table is sorted slice of time by slice of time, so that memory stays bounded whatever its size.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pasta.ahead import ahead
from pasta.errors import TraceError
from pasta.schema import TABLES, arrow_schema

PART_FILES = "part-*.parquet"
ROW_GROUP_ROWS = 1 << 17
FILE_ROWS = 1 << 20
SLICE_ROWS = 1 << 16
_SAMPLES_PER_GROUP = 1024
_EARLIEST, _LATEST = -(1 << 63), (1 << 63) - 1

Transform = Callable[[pl.DataFrame], pl.DataFrame]
"""Applied to a table when it is finished, slice after slice in order of `ts`."""


def merge(folder: Path, table: str, transform: Transform | None) -> int:
    """Replace the parts in `folder` by files that are sorted by `ts` throughout.

    Rows with one `ts` stay in the order in which they were appended. The folder of a table that
    ends up without rows is removed.

    Returns:
        The number of rows.
    """
    parts = sorted(folder.glob(PART_FILES))
    columns = arrow_schema(table).names
    sorted_files = _SortedFiles(folder, table)
    for rows in ahead(_slices(parts, table)):
        frame = rows if transform is None else transform(rows)
        sorted_files.append(frame.select(columns))
    sorted_files.close()
    for part in parts:
        part.unlink()
    if sorted_files.rows == 0:
        shutil.rmtree(folder)
    return sorted_files.rows


def revise(file: Path, table: str, transform: Transform) -> None:
    """Replace the rows of one finished file by what `transform` makes of them, in their order."""
    frame = transform(pl.read_parquet(file, hive_partitioning=False, glob=False))
    rows = conform(table, frame.to_arrow(compat_level=pl.CompatLevel.oldest()))
    temporary = file.with_name(f".{file.name}")
    with parquet_writer(temporary, table, compression="zstd") as writer:
        writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
    temporary.rename(file)


class _SortedFiles:
    """The finished files of one table."""

    def __init__(self, folder: Path, table: str) -> None:
        self.rows = 0
        self._folder = folder
        self._table = table
        self._files = self._file_rows = 0
        self._writer: pq.ParquetWriter | None = None

    def append(self, frame: pl.DataFrame) -> None:
        if frame.height == 0:
            return
        rows = conform(self._table, frame.to_arrow(compat_level=pl.CompatLevel.oldest()))
        if self._writer is None:
            self._writer = parquet_writer(self._temporary, self._table, compression="zstd")
        self._writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
        self.rows += frame.height
        self._file_rows += frame.height
        if self._file_rows >= FILE_ROWS:
            self.close()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._temporary.rename(self._folder / f"{self._files:06d}.parquet")
            self._writer = None
            self._files += 1
            self._file_rows = 0

    @property
    def _temporary(self) -> Path:
        return self._folder / f".{self._files:06d}.parquet"


def parquet_writer(path: Path, table: str, *, compression: str) -> pq.ParquetWriter:
    """Return a writer of `table` that keeps dictionaries for texts only: numbers repeat little."""
    schema = arrow_schema(table)
    texts = [
        field.name if pa.types.is_string(field.type) else f"{field.name}.list.element"
        for field in schema
        if pa.types.is_string(field.type) or pa.types.is_list(field.type)
    ]
    return pq.ParquetWriter(path, schema, compression=compression, use_dictionary=texts)  # type: ignore[arg-type]


def conform(table: str, batch: pa.RecordBatch | pa.Table) -> pa.Table:
    """Return `batch` with exactly the columns of `table`, in order and of its types."""
    schema = arrow_schema(table)
    names = set(batch.schema.names)
    unknown = sorted(names.difference(schema.names))
    if unknown:
        raise TraceError(f"table '{table}' has no column {', '.join(unknown)}")
    columns = []
    for field in schema:
        if field.name not in names:
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        column = batch.column(field.name)
        columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)


@dataclass(frozen=True)
class _Extent:
    """The times in one part; one without any counts as late as possible."""

    part: Path
    first: int
    last: int


def _slices(parts: list[Path], table: str) -> Iterator[pl.DataFrame]:
    """Yield about `SLICE_ROWS` rows at a time, in order of `ts` where the table has it."""
    if "ts" not in TABLES[table].schema.names:
        for part in parts:
            yield from pl.read_parquet(part, hive_partitioning=False).iter_slices(SLICE_ROWS)
        return
    extents, edges = _survey(parts)
    bounds: list[int | None] = [*edges, None]
    for low, high in zip([_EARLIEST, *edges], bounds, strict=True):
        overlapping = [
            extent.part
            for extent in extents
            if extent.last >= low and (high is None or extent.first < high)
        ]
        if not overlapping:
            continue
        time = pl.col("ts")  # bare, so that row groups are left out by their statistics
        within = (time >= low) | time.is_null() if high is None else (time >= low) & (time < high)
        rows = pl.scan_parquet(overlapping, hive_partitioning=False, glob=False).filter(within)
        yield rows.collect(engine="streaming").sort("ts", nulls_last=True, maintain_order=True)


def _survey(parts: list[Path]) -> tuple[list[_Extent], list[int]]:
    """Return the times of each part, and where to cut so that slices are about equally large."""
    extents = []
    samples = [np.zeros(0, dtype=np.int64)]
    rows = 0
    for part in parts:
        file = pq.ParquetFile(part)
        rows += file.metadata.num_rows
        first, last = _LATEST, _EARLIEST
        for group in range(file.num_row_groups):
            column = file.read_row_group(group, columns=["ts"]).column("ts")
            known: NDArray[np.int64] = column.drop_null().to_numpy()
            samples.append(known[:: ROW_GROUP_ROWS // _SAMPLES_PER_GROUP])
            first = min(first, int(known.min(initial=_LATEST)))
            last = _LATEST if column.null_count else max(last, int(known.max(initial=_EARLIEST)))
        extents.append(_Extent(part, first, last))
    times = np.sort(np.concatenate(samples))
    count = min(-(-rows // SLICE_ROWS), len(times) + 1)
    return extents, np.unique(times[np.arange(1, count) * len(times) // count]).tolist()
