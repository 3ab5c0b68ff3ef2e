"""Sorting a finished table: the files that grew while it was recorded become sorted ones.

A table is sorted slice of time by slice of time, so that memory stays bounded whatever its size.
"""

from __future__ import annotations

import shutil
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from pasta.ahead import ahead
from pasta.errors import TraceError
from pasta.schema import TABLES, arrow_schema
from pasta.trace_parts import LATEST, Part, known_times, open_part, parquet_writer, part_files
from pasta.whole_file import whole_file

ROW_GROUP_ROWS = 1 << 17
FILE_ROWS = 1 << 20
SLICE_ROWS = 1 << 16
SLICE_BYTES = 1 << 24
"""Of rows with long texts fewer make a slice, of which several are in memory at once."""
_SAMPLE_ROWS = 128
_HELD_BYTES = 1 << 25
_EARLIEST = -(1 << 63)

Transform = Callable[[pl.DataFrame], pl.DataFrame]
"""Applied to a table when it is finished, slice after slice in order of `ts`."""


def merge(folder: Path, table: str, transform: Transform | None) -> int:
    """Replace the parts in `folder` by files that are sorted by `ts` throughout.

    Rows with one `ts` stay in the order in which they were appended. The folder of a table that
    ends up without rows is removed.

    Returns:
        The number of rows.
    """
    parts = part_files(folder)
    columns = arrow_schema(table).names
    sorted_files = _SortedFiles(folder, table)
    slices = ahead(_slices([open_part(part) for part in parts], table))
    for frame in slices if transform is None else ahead(map(transform, slices)):
        sorted_files.append(frame.select(columns))
    sorted_files.close()
    for part in parts:
        part.unlink()
    if sorted_files.rows == 0:
        shutil.rmtree(folder)
    return sorted_files.rows


def read_parts(parts: Sequence[Path]) -> pl.DataFrame:
    """Return all rows of parts."""
    opened = [open_part(part) for part in parts]
    return _frame(
        pa.concat_tables([part.read(batch) for part in opened for batch in range(part.batches)])
    )


def revise(file: Path, table: str, transform: Transform) -> None:
    """Replace the rows of one finished file by what `transform` makes of them, group by group."""
    with (
        whole_file(file) as temporary,
        pq.ParquetFile(file) as finished,
        parquet_writer(temporary, table, compression="zstd") as writer,
    ):
        for group in range(finished.num_row_groups):
            frame = transform(pl.DataFrame(finished.read_row_group(group)))
            rows = conform(table, frame.to_arrow(compat_level=pl.CompatLevel.oldest()))
            writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)


class _SortedFiles:
    """The finished files of one table."""

    def __init__(self, folder: Path, table: str) -> None:
        self.rows = 0
        self._folder = folder
        self._table = table
        self._files = self._file_rows = 0
        self._writer: pq.ParquetWriter | None = None

    def append(self, frame: pl.DataFrame) -> None:
        """Add rows that follow those before; a file that is large enough is finished."""
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
        """Finish the file that is open, if one is."""
        if self._writer is not None:
            self._writer.close()
            self._temporary.rename(self._folder / f"{self._files:06d}.parquet")
            self._writer = None
            self._files += 1
            self._file_rows = 0

    @property
    def _temporary(self) -> Path:
        return self._folder / f".{self._files:06d}.parquet"


def conform(table: str, batch: pa.RecordBatch | pa.Table) -> pa.Table:
    """Return `batch` with exactly the columns of `table`, in order and of its types.

    Raises:
        TraceError: it has a column that `table` does not have.
    """
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


def _slices(parts: Sequence[Part], table: str) -> Iterator[pl.DataFrame]:
    """Yield about `SLICE_ROWS` rows at a time, in order of `ts` where the table has it.

    Rows without a time come last.
    """
    if "ts" not in TABLES[table].schema.names:
        for part in parts:
            for batch in range(part.batches):
                yield from _frame(part.read(batch)).iter_slices(SLICE_ROWS)
        return
    batches = _Batches(parts)
    slice_rows = batches.slice_rows()
    cuts = batches.cuts(slice_rows)
    for low, high in zip([_EARLIEST, *cuts], [*cuts, LATEST], strict=True):
        pieces = batches.between(low, high)
        if pieces:
            frame = _frame(pa.concat_tables(pieces))
            in_order = frame["ts"].is_sorted(nulls_last=True)
            yield frame if in_order else frame.sort("ts", nulls_last=True, maintain_order=True)
    for rows in batches.without_time():
        yield from _frame(rows).iter_slices(slice_rows)


def _frame(rows: pa.Table) -> pl.DataFrame:
    return cast(pl.DataFrame, pl.from_arrow(rows))


class _Batches:
    """The batches of a table's parts, each sorted by `ts`.

    Those that the next slice needs, too, stay in memory, up to a size.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self._places = [(part, batch) for part in parts for batch in range(part.batches)]
        self._first, self._last, self._samples = [], [], []
        self._rows = 0
        for part, batch in self._places:
            times = known_times(part.times(batch))
            self._rows += len(times)
            self._first.append(int(times[0]))
            self._last.append(int(times[-1]))
            self._samples.append(times[times < LATEST][::_SAMPLE_ROWS].copy())
        self._read: OrderedDict[int, pa.Table] = OrderedDict()

    def slice_rows(self) -> int:
        """Return how many rows make a slice, by the size of those of the first batch."""
        first = self._batch(0)
        row_bytes = max(1, first.nbytes // max(1, first.num_rows))
        return max(1, min(SLICE_ROWS, SLICE_BYTES // row_bytes))

    def cuts(self, slice_rows: int) -> list[int]:
        """Return times between which about `slice_rows` rows lie."""
        times = np.sort(np.concatenate(self._samples))
        count = min(-(-self._rows // slice_rows), len(times) + 1)
        return [int(time) for time in np.unique(times[np.arange(1, count) * len(times) // count])]

    def between(self, low: int, high: int) -> list[pa.Table]:
        """Return the rows from `low` to before `high`, by batch; `low` is never less than the last `high`."""
        for place in [place for place in self._read if self._last[place] < low]:
            del self._read[place]
        pieces = []
        for place, (first, last) in enumerate(zip(self._first, self._last, strict=True)):
            if last < low or first >= high:
                continue
            rows = self._batch(place)
            times = known_times(rows.column("ts"))
            start, stop = map(int, np.searchsorted(times, [low, high]))
            if start < stop:
                pieces.append(rows.slice(start, stop - start))
        return pieces

    def without_time(self) -> Iterator[pa.Table]:
        """Yield the rows of each batch that have no time."""
        for place, last in enumerate(self._last):
            if last == LATEST:
                rows = self._batch(place)
                times = known_times(rows.column("ts"))
                yield rows.slice(int(np.searchsorted(times, LATEST)))

    def _batch(self, place: int) -> pa.Table:
        rows = self._read.pop(place, None)
        if rows is None:
            part, batch = self._places[place]
            rows = part.read(batch)
        self._read[place] = rows
        while (
            len(self._read) > 1 and sum(held.nbytes for held in self._read.values()) > _HELD_BYTES
        ):
            self._read.popitem(last=False)
        return rows
