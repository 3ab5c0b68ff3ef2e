"""Writing a trace: batches are appended as they come, and sorted once when the trace is finished.

While a trace is recorded, each table grows by files that roll; every row group in them is sorted
by `ts`. Finishing merges them into larger files that are sorted throughout, slice of time by slice
of time, so that memory stays bounded whatever the size.
"""

from __future__ import annotations

import datetime
import itertools
import json
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import pasta
from pasta.errors import TraceError
from pasta.schema import SCHEMA_VERSION, TABLES, arrow_schema
from pasta.trace import MANIFEST, RANK_FOLDER, empty_table

ROW_GROUP_ROWS = 1 << 17
ROW_GROUP_BYTES = 1 << 24
FILE_ROWS = 1 << 20
SLICE_ROWS = 1 << 19

Transform = Callable[[pl.DataFrame], pl.DataFrame]
"""Applied to a table when it is finished, slice after slice in order of `ts`."""


class TraceWriter:
    """A trace being written.

    Args:
        path: the directory; made if absent, refused if it holds anything.
        info: what goes into `trace.json` beside the version and the date: `command`,
            `collectors`, `sources`, `clock`.
    """

    def __init__(self, path: Path, info: Mapping[str, Any]) -> None:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise TraceError(f"{path}: already exists and is not empty; choose another -o")
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._info: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "pasta_version": pasta.__version__,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "state": "recording",
            **info,
        }
        self._write_manifest()

    def part(self, rank: int | None = None, *, file_seconds: float | None = None) -> PartWriter:
        """Return a writer for one rank's tables; `None` where the run has one process."""
        folder = self.path if rank is None else self.path / RANK_FOLDER.format(rank)
        return PartWriter(folder, file_seconds=file_seconds)

    def finish(self, **info: Any) -> None:
        """Mark the trace complete and add what is known only now, as `ended="exit 0"`."""
        self._info.update(info, state="complete")
        self._write_manifest()

    def _write_manifest(self) -> None:
        temporary = self.path / f".{MANIFEST}"
        temporary.write_text(json.dumps(self._info, indent=2) + "\n", encoding="utf-8")
        temporary.rename(self.path / MANIFEST)


class PartWriter:
    """The tables of one rank.

    Args:
        folder: where the tables' folders go.
        file_seconds: roll files after so long, for live recording; `None`: by rows only.
    """

    def __init__(self, folder: Path, *, file_seconds: float | None = None) -> None:
        self.folder = folder
        self.rows: dict[str, int] = {}
        self._file_seconds = file_seconds
        self._open: dict[str, _RollingFile] = {}

    def append(self, table: str, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows; columns that `batch` lacks are null, unknown ones are an error."""
        if batch.num_rows == 0:
            return
        rows = conform(table, batch)
        if table not in self._open:
            self._open[table] = _RollingFile(self.folder / table, table, self._file_seconds)
        self._open[table].append(rows)
        self.rows[table] = self.rows.get(table, 0) + rows.num_rows

    def adopt(self, folder: Path, rows: Mapping[str, int]) -> None:
        """Take over the flushed files of another part's `folder`, after those appended so far."""
        for table, count in rows.items():
            if table not in self._open:
                self._open[table] = _RollingFile(self.folder / table, table, self._file_seconds)
            for file in sorted((folder / table).glob("part-*.parquet")):
                self._open[table].adopt(file)
            self.rows[table] = self.rows.get(table, 0) + count

    def flush(self) -> None:
        """Close the open files, so that a reader sees every row appended so far."""
        for file in self._open.values():
            file.close()

    def finish(self, transforms: Mapping[str, Transform] | None = None) -> None:
        """Sort each table by `ts` and merge its files; apply `transforms` on the way."""
        self.flush()
        for table in self._open:
            _merge(self.folder / table, table, (transforms or {}).get(table))
        self._open.clear()


class _RollingFile:
    """The files of one table while it is being appended to."""

    def __init__(self, folder: Path, table: str, seconds: float | None) -> None:
        self.folder = folder
        self._schema = arrow_schema(table)
        self._sorted = "ts" in self._schema.names
        self._seconds = seconds
        self._pending: list[pa.Table] = []
        self._pending_rows = self._pending_bytes = 0
        self._file_rows = 0
        self._files = 0
        self._opened = 0.0
        self._writer: pq.ParquetWriter | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def append(self, rows: pa.Table) -> None:
        if self._opened == 0.0:
            self._opened = time.monotonic()
        self._pending.append(rows)
        self._pending_rows += rows.num_rows
        self._pending_bytes += rows.nbytes
        if self._pending_rows >= ROW_GROUP_ROWS or self._pending_bytes >= ROW_GROUP_BYTES:
            self._write_row_group()
        late = self._seconds is not None and time.monotonic() - self._opened >= self._seconds
        if self._file_rows >= FILE_ROWS or late:
            self.close()

    def close(self) -> None:
        self._write_row_group()
        if self._writer is not None:
            self._writer.close()
            self._temporary.rename(self.folder / f"part-{self._files:06d}.parquet")
            self._writer = None
            self._files += 1
        self._file_rows = 0
        self._opened = 0.0

    def adopt(self, file: Path) -> None:
        self.close()
        file.rename(self.folder / f"part-{self._files:06d}.parquet")
        self._files += 1

    @property
    def _temporary(self) -> Path:
        return self.folder / f".part-{self._files:06d}.parquet"

    def _write_row_group(self) -> None:
        if not self._pending:
            return
        rows = pa.concat_tables(self._pending)
        if self._sorted:
            rows = rows.sort_by("ts")
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._temporary,
                self._schema,
                compression="lz4",
                write_statistics=["ts"],
                use_dictionary=_texts(self._schema),  # type: ignore[arg-type]
            )
        self._writer.write_table(rows)
        self._file_rows += rows.num_rows
        self._pending = []
        self._pending_rows = self._pending_bytes = 0


def conform(table: str, batch: pa.RecordBatch | pa.Table) -> pa.Table:
    """Return `batch` with exactly the columns of `table`, in order and of its types."""
    schema = arrow_schema(table)
    unknown = [name for name in batch.schema.names if name not in schema.names]
    if unknown:
        raise TraceError(f"table '{table}' has no column {', '.join(unknown)}")
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _merge(folder: Path, table: str, transform: Transform | None) -> None:
    """Replace the parts in `folder` by files that are sorted by `ts` throughout."""
    parts = sorted(folder.glob("part-*.parquet"))
    names = pl.Series([str(part) for part in parts])
    rows = pl.scan_parquet(names.to_list(), hive_partitioning=False, glob=False)
    if "ts" in TABLES[table].schema.names:
        slices = [rows.filter(test) for test in _time_slices(parts)]
    else:
        total = sum(pq.read_metadata(part).num_rows for part in parts)
        slices = [rows.slice(start, SLICE_ROWS) for start in range(0, total, SLICE_ROWS)]
    columns = empty_table(table).columns
    written = 0
    for part in slices:
        frame = part.collect(engine="streaming")
        if "ts" in columns:
            frame = frame.sort("ts", maintain_order=True)
        if transform is not None:
            frame = transform(frame)
        if frame.height:
            _write_file(folder / f"{written:06d}.parquet", table, frame.select(columns))
            written += 1
    for part_file in parts:
        part_file.unlink()
    if written == 0:
        shutil.rmtree(folder)


def _time_slices(parts: list[Path]) -> list[pl.Expr]:
    """Split time so that each slice holds about `SLICE_ROWS` rows, from samples of each part."""
    samples = []
    total = 0
    for part in parts:
        file = pq.ParquetFile(part)
        total += file.metadata.num_rows
        for group in range(file.num_row_groups):
            times = file.read_row_group(group, columns=["ts"]).column("ts").to_numpy()
            samples.append(times[:: max(1, ROW_GROUP_ROWS // 1024)])
    count = -(-total // SLICE_ROWS)
    times = np.sort(np.concatenate(samples))
    edges = np.unique(times[np.arange(1, count) * len(times) // count]).tolist()
    bounds = [None, *edges, None]
    tests = []
    for low, high in itertools.pairwise(bounds):
        test = pl.lit(value=True)
        if low is not None:
            test &= pl.col("ts") >= low
        if high is not None:
            test &= pl.col("ts") < high
        tests.append(test)
    return tests


def _write_file(path: Path, table: str, frame: pl.DataFrame) -> None:
    temporary = path.with_name(f".{path.name}")
    rows = conform(table, frame.to_arrow(compat_level=pl.CompatLevel.oldest()))
    pq.write_table(
        rows,
        temporary,
        compression="zstd",
        row_group_size=ROW_GROUP_ROWS,
        use_dictionary=_texts(rows.schema),  # type: ignore[arg-type]
    )
    temporary.rename(path)


def _texts(schema: pa.Schema) -> list[str]:
    """Return the Parquet columns that are worth a dictionary: numbers rarely repeat enough."""
    return [
        field.name if pa.types.is_string(field.type) else f"{field.name}.list.element"
        for field in schema
        if pa.types.is_string(field.type) or pa.types.is_list(field.type)
    ]
