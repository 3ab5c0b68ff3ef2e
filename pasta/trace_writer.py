"""Writing a trace: batches are appended as they come, and sorted once when the trace is finished.

While a trace is recorded, each table grows by files that roll; every row group in them is sorted
by `ts`. Finishing merges them into larger files that are sorted throughout.
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import pasta
from pasta.errors import TraceError
from pasta.schema import SCHEMA_VERSION, arrow_schema
from pasta.trace import MANIFEST, RANK_FOLDER
from pasta.trace_merge import (
    FILE_ROWS,
    PART_FILES,
    ROW_GROUP_ROWS,
    Transform,
    conform,
    merge,
    parquet_writer,
    revise,
)

ROW_GROUP_BYTES = 1 << 22


def new_manifest(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of `trace.json` for a trace that begins now."""
    return {
        "schema_version": SCHEMA_VERSION,
        "pasta_version": pasta.__version__,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "state": "recording",
        **info,
    }


class TraceWriter:
    """A trace being written.

    Args:
        path: the directory; made if absent, refused if it holds anything.
        info: what goes into `trace.json` beside the version and the date: `command`,
            `collectors`, `sources`, `clock`.
        beside: files or folders that may lie in the directory.
    """

    def __init__(self, path: Path, info: Mapping[str, Any], beside: Collection[Path] = ()) -> None:
        if path.exists() and not _is_free(path, beside):
            raise TraceError(f"{path}: already exists and is not empty; choose another -o")
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._info = new_manifest(info)
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


def _is_free(path: Path, beside: Collection[Path]) -> bool:
    """Tell whether a directory holds nothing but what leads to the files `beside`."""
    kept = [file.resolve() for file in beside]
    return path.is_dir() and all(
        any(file.is_relative_to(found.resolve()) for file in kept) for found in path.iterdir()
    )


class PartWriter:
    """The tables of one rank.

    Args:
        folder: where the tables' folders go.
        file_seconds: for live recording: roll files after so long and sort each row group by `ts`;
            `None`: roll files by rows only and leave all sorting to `finish`.
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
            for file in sorted((folder / table).glob(PART_FILES)):
                self._open[table].adopt(file)
            self.rows[table] = self.rows.get(table, 0) + count

    @property
    def bytes(self) -> int:
        """Size of the files that are closed so far."""
        return sum(file.bytes for file in self._open.values())

    def roll(self) -> None:
        """Close the open files that are as old as `file_seconds`."""
        for file in self._open.values():
            file.roll()

    def rewrite(self, table: str, transform: Transform) -> None:
        """Replace all rows of a table that fits into memory by what `transform` makes of them."""
        if table not in self._open:
            return
        self._open.pop(table).close()
        folder = self.folder / table
        parts = sorted(folder.glob(PART_FILES))
        rows = transform(pl.read_parquet(parts, hive_partitioning=False, glob=False))
        for part in parts:
            part.unlink()
        self.rows[table] = 0
        self.append(table, rows.to_arrow(compat_level=pl.CompatLevel.oldest()))

    def revise(self, table: str, transform: Transform) -> None:
        """Replace the rows of a finished table by what `transform` makes of them, file by file."""
        for file in sorted((self.folder / table).glob("*.parquet")):
            revise(file, table, transform)

    def flush(self) -> None:
        """Close the open files, so that a reader sees every row appended so far."""
        for file in self._open.values():
            file.close()

    def finish(
        self,
        transforms: Mapping[str, Transform] | None = None,
        *,
        only: Collection[str] | None = None,
    ) -> None:
        """Sort each table by `ts` and merge its files; nothing can be appended to it any more.

        Args:
            transforms: table -> what is applied to it on the way.
            only: the tables to finish; all by default.
        """
        self.flush()
        changed = transforms or {}

        def sort(table: str) -> tuple[str, int]:
            return table, merge(self.folder / table, table, changed.get(table))

        chosen = self._open if only is None else self._open.keys() & set(only)
        tables = sorted(chosen, key=self.rows.__getitem__, reverse=True)
        with ThreadPoolExecutor(max_workers=2) as pool:
            self.rows.update(pool.map(sort, tables))
        for table in tables:
            del self._open[table]


class _RollingFile:
    """The files of one table while it is being appended to."""

    def __init__(self, folder: Path, table: str, seconds: float | None) -> None:
        self.folder = folder
        self._table = table
        self._sorted = seconds is not None and "ts" in arrow_schema(table).names
        self._seconds = seconds
        self._pending: list[pa.Table] = []
        self._pending_rows = self._pending_bytes = 0
        self._file_rows = 0
        self._files = 0
        self._opened = 0.0
        self.bytes = 0
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
        if self._file_rows >= FILE_ROWS:
            self.close()
        self.roll()

    def roll(self) -> None:
        late = self._seconds is not None and time.monotonic() - self._opened >= self._seconds
        if late and self._opened:
            self.close()

    def close(self) -> None:
        self._write_row_group()
        if self._writer is not None:
            self._writer.close()
            self.bytes += self._temporary.stat().st_size
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
            self._writer = parquet_writer(self._temporary, self._table, compression="lz4")
        self._writer.write_table(rows)
        self._file_rows += rows.num_rows
        self._pending = []
        self._pending_rows = self._pending_bytes = 0
