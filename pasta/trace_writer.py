"""Writing a trace: batches are appended as they come, and sorted once when the trace is finished.

While a trace is recorded, each table grows by files that roll; every row group in them is sorted
by `ts`. Finishing merges them into larger files that are sorted throughout.
"""

from __future__ import annotations

import contextlib
import datetime
import shutil
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

import pasta
from pasta.errors import TraceError
from pasta.schema import SCHEMA_VERSION, TABLES
from pasta.trace import MANIFEST, RANK_FOLDER, RANK_GLOB
from pasta.trace_merge import (
    FILE_ROWS,
    ROW_GROUP_ROWS,
    Transform,
    conform,
    merge,
    read_parts,
    revise,
)
from pasta.trace_parts import PartSink, create_part, part_files, part_name, sorted_batch
from pasta.trace_state import COMPLETE, this_process
from pasta.whole_file import write_json

BATCH_ROWS = 1 << 15
BATCH_BYTES = 1 << 22


def new_manifest(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of `trace.json` for a trace that begins now."""
    return {
        "schema_version": SCHEMA_VERSION,
        "pasta_version": pasta.__version__,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "state": "recording",
        **info,
        "recorder": this_process(),
    }


@contextlib.contextmanager
def beginning(path: Path) -> Iterator[None]:
    """Say in one line why no trace can begin in a folder.

    Raises:
        TraceError: the system refuses the folder, or a file in it.
    """
    try:
        yield
    except OSError as error:
        raise TraceError(f"{path}: cannot be made ({error.strerror}); choose another -o") from error


def flatten(path: Path, rank: int) -> None:
    """Move the tables of a trace's only rank to the trace's root."""
    folder = path / RANK_FOLDER.format(rank)
    if not folder.exists():
        return
    for table in folder.iterdir():
        table.rename(path / table.name)
    folder.rmdir()


class TraceWriter:
    """A trace being written.

    Args:
        path: the directory; made if absent, refused if it holds anything.
        info: what goes into `trace.json` beside the version and the date: `command`,
            `collectors`, `sources`, `clock`.
        beside: files or folders that may lie in the directory.

    Raises:
        TraceError: the directory holds something, or cannot be made.
    """

    def __init__(self, path: Path, info: Mapping[str, Any], beside: Collection[Path] = ()) -> None:
        self.path = path
        self._info = new_manifest(info)
        with beginning(path):
            self._is_new = not path.exists()
            if not self._is_new and not _is_free(path, beside):
                raise TraceError(f"{path}: already exists and is not empty; choose another -o")
            path.mkdir(parents=True, exist_ok=True)
            self._before = set(path.iterdir())
            self._begin()

    def _begin(self) -> None:
        """Write `trace.json`: of several that begin a trace in one folder, one can."""
        try:
            write_json(self.path / MANIFEST, self._info, new=True)
        except BaseException as error:
            if self._is_new:
                with contextlib.suppress(OSError):
                    self.path.rmdir()
            if isinstance(error, FileExistsError):
                raise TraceError(
                    f"{self.path}: another trace was begun there just now; choose another -o"
                ) from error
            raise

    def part(self, rank: int | None = None, *, file_seconds: float | None = None) -> PartWriter:
        """Return a writer for one rank's tables; `None` where the run has one process."""
        folder = self.path if rank is None else self.path / RANK_FOLDER.format(rank)
        return PartWriter(folder, file_seconds=file_seconds)

    @contextlib.contextmanager
    def removed_on_failure(self) -> Iterator[None]:
        """Remove the trace where the block fails: what made it can be asked again."""
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError):
                self._remove_own()
            raise

    def _remove_own(self) -> None:
        for path in set(self.path.iterdir()) - self._before:
            if not _is_of_a_trace(path.name):
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        if self._is_new:
            self.path.rmdir()

    def finish(self, **info: Any) -> None:
        """Mark the trace complete and add what is known only now, as `ended="exit 0"`."""
        self._info.update(info, state=COMPLETE)
        write_json(self.path / MANIFEST, self._info)


def _is_of_a_trace(name: str) -> bool:
    """Tell whether a writer of traces makes a file or folder of that name."""
    return name in TABLES or name == MANIFEST or fnmatch(name, RANK_GLOB)


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
        file_seconds: for live recording: close files after so long, and write such as others can read;
            `None`: nobody reads the tables before `finish`.
    """

    def __init__(self, folder: Path, *, file_seconds: float | None = None) -> None:
        self.folder = folder
        self.rows: dict[str, int] = {}
        self._file_seconds = file_seconds
        self._open: dict[str, _RollingFile] = {}
        self._background = ThreadPoolExecutor(max_workers=1)

    def append(self, table: str, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows; columns that `batch` lacks are null.

        Raises:
            TraceError: it has a column that the table does not have.
        """
        if batch.num_rows == 0:
            return
        rows = conform(table, batch)
        self._file(table).append(rows)
        self.rows[table] = self.rows.get(table, 0) + rows.num_rows

    def adopt(self, folder: Path, rows: Mapping[str, int]) -> None:
        """Take over the flushed files of another part's `folder`, after those appended so far."""
        for table, count in rows.items():
            for file in part_files(folder / table):
                self._file(table).adopt(file)
            self.rows[table] = self.rows.get(table, 0) + count

    def resume(self, table: str) -> None:
        """Go on after the closed parts of a table that a writer left in the folder."""
        self._file(table).resume()

    def _file(self, table: str) -> _RollingFile:
        if table not in self._open:
            self._open[table] = _RollingFile(
                self.folder / table, table, self._file_seconds, self._background
            )
        return self._open[table]

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
        parts = part_files(folder)
        rows = transform(read_parts(parts))
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
        for table in list(self._open):
            if only is None or table in only:
                self.rows[table] = merge(self.folder / table, table, changed.get(table))
                del self._open[table]


class _RollingFile:
    """The parts of one table while it is being appended to.

    Args:
        folder: of the table.
        table: its name.
        seconds: the age at which a part that others may read is closed; `None`: nobody reads parts.
        background: sorts and writes batches.
    """

    def __init__(
        self, folder: Path, table: str, seconds: float | None, background: Executor
    ) -> None:
        self._folder = folder
        self._table = table
        self._seconds = seconds
        self._background = background
        self._batch_rows = BATCH_ROWS if seconds is None else ROW_GROUP_ROWS
        self._pending: list[pa.Table] = []
        self._pending_rows = self._pending_bytes = 0
        self._file_rows = 0
        self._files = 0
        self._opened = 0.0
        self.bytes = 0
        self._sink: PartSink | None = None
        self._writing: Future[None] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def append(self, rows: pa.Table) -> None:
        """Take rows, which are written in the background as soon as they fill a batch."""
        if self._opened == 0.0:
            self._opened = time.monotonic()
        for start in range(0, rows.num_rows, self._batch_rows):
            piece = rows.slice(start, self._batch_rows)
            self._pending.append(piece)
            self._pending_rows += piece.num_rows
            self._pending_bytes += piece.nbytes
            if self._pending_rows >= self._batch_rows or self._pending_bytes >= BATCH_BYTES:
                self._write_batch()
        if self._file_rows >= FILE_ROWS:
            self.close()
        self.roll()

    def roll(self) -> None:
        """Close the part if it is as old as one that others read may get."""
        late = self._seconds is not None and time.monotonic() - self._opened >= self._seconds
        if late and self._opened:
            self.close()

    def close(self) -> None:
        """Write all that was taken, and give the part its final name."""
        self._write_batch()
        self._wait()
        if self._sink is not None:
            self._sink.close()
            self.bytes += self._temporary.stat().st_size
            self._temporary.rename(self._folder / self._name)
            self._sink = None
            self._files += 1
        self._file_rows = 0
        self._opened = 0.0

    def adopt(self, file: Path) -> None:
        """Move a complete part here, after those that are there."""
        self.close()
        file.rename((self._folder / self._name).with_suffix(file.suffix))
        self._files += 1

    def resume(self) -> None:
        """Number the next part after those in the folder."""
        self._files = len(part_files(self._folder))

    @property
    def _name(self) -> str:
        return part_name(self._files, readable=self._seconds is not None)

    @property
    def _temporary(self) -> Path:
        return self._folder / f".{self._name}"

    def _write_batch(self) -> None:
        """Begin to write what is pending, once the batch before it is written."""
        if not self._pending:
            return
        self._wait()
        if self._sink is None:
            self._sink = create_part(self._temporary, self._table)
        self._writing = self._background.submit(_write, self._sink, self._pending)
        self._file_rows += self._pending_rows
        self._pending = []
        self._pending_rows = self._pending_bytes = 0

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()
            self._writing = None


def _write(sink: PartSink, pending: Sequence[pa.Table]) -> None:
    sink.write_batch(sorted_batch(pending))
