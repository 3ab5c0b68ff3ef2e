"""A trace on disk: a directory of Parquet tables with a `trace.json` beside them.

    t/trace.json
    t/span/000000.parquet            one process, or
    t/rank-00003/span/000000.parquet a folder for each rank of several, with rows of that rank only

Files that are being written have a temporary name, so that a reader sees only finished ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable
from functools import cache, cached_property
from pathlib import Path
from typing import Any, cast

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from pasta.errors import TraceError, did_you_mean
from pasta.schema import SCHEMA_VERSION, TABLES, arrow_schema

MANIFEST = "trace.json"
RANK_PREFIX = "rank-"
RANK_FOLDER = RANK_PREFIX + "{:05d}"
RANK_GLOB = RANK_PREFIX + "*"


class Trace:
    """A trace opened for reading.

    Attributes:
        path: the directory.
        info: the content of `trace.json`.
    """

    def __init__(self, path: Path, info: dict[str, Any]) -> None:
        self.path = path
        self.info = info
        self._checked: set[Path] = set()
        self._losses: dict[tuple[Path, ...], pl.DataFrame] = {}

    @classmethod
    def open(cls, path: str | Path) -> Trace:
        """Open the trace in `path`.

        Raises:
            TraceError: `path` is absent, holds no trace, or one of a newer schema version.
        """
        path = Path(path)
        if not path.exists():
            raise TraceError(f"{path}: no such file or directory; name the folder of a trace")
        manifest = path / MANIFEST
        if not manifest.is_file():
            raise TraceError(f"{path}: not a pasta trace (no {MANIFEST}); make one: pasta import")
        try:
            info = json.loads(manifest.read_bytes())
            version = _version(info["schema_version"])
        except KeyError as error:
            raise TraceError(f"{manifest}: damaged (it has no {error})") from error
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise TraceError(
                f"{manifest}: damaged ({error}); the tables beside it are plain Parquet"
            ) from error
        if version > SCHEMA_VERSION:
            raise TraceError(
                f"{path}: schema version {version} is newer than this pasta's {SCHEMA_VERSION};"
                " upgrade pasta to read it"
            )
        return cls(path, info)

    @cached_property
    def _folders(self) -> list[Path]:
        return [self.path, *sorted(self.path.glob(RANK_GLOB))]

    @property
    def ranks(self) -> list[int]:
        """The ranks that have a folder of their own."""
        found = (_rank_of(folder) for folder in self._folders)
        return [rank for rank in found if rank is not None]

    def has(self, table: str) -> bool:
        """Tell whether there is a file of `table`, without opening any."""
        return any(_finished(folder / table) for folder in self._folders)

    def files(self, table: str, ranks: Collection[int] | None = None) -> list[Path]:
        """Return the finished Parquet files of `table`, in rank and time order.

        Args:
            table: name of the table.
            ranks: leave out, without opening them, files in the folders of all other ranks.

        Raises:
            TraceError: there is no table of that name in the schema, or a file is damaged.
        """
        if table not in TABLES:
            raise TraceError(f"no table '{table}'.{did_you_mean(table, TABLES)}")
        found = [
            file
            for folder in self._folders
            if ranks is None or _rank_of(folder) is None or _rank_of(folder) in ranks
            for file in _finished(folder / table)
        ]
        for file in found:
            if file not in self._checked:
                _check_file(file, table, self.path)
                self._checked.add(file)
        return found

    def tables(self) -> list[str]:
        """Return the names of the tables that have rows."""
        return [table for table in TABLES if self.files(table)]

    def scan(self, table: str, ranks: Collection[int] | None = None) -> pl.LazyFrame:
        """Return `table` as a lazy frame over all ranks, or without the folders of all but some.

        Raises:
            TraceError: the trace has no such table.
        """
        files = self.files(table, ranks)
        if not files and ranks is not None and self.has(table):
            return empty_table(table).lazy()
        if not files:
            raise TraceError(
                f"{self.path}: no table '{table}'; this trace has {', '.join(self.tables())}"
            )
        return scan_files(files, table)

    def rows(self, table: str) -> int:
        """Return the number of rows of `table`, from the files' footers."""
        return sum(pq.read_metadata(file).num_rows for file in self.files(table))

    def losses(self) -> pl.DataFrame:
        """Return the `loss` table summed over ranks and processes, largest count first.

        The same frame as long as no file is added, not to be changed in place: each tool of a report tells it.
        """
        files = tuple(self.files("loss"))
        if files not in self._losses:
            self._losses = {files: _summed_losses(files)}
        return self._losses[files]


def _summed_losses(files: Iterable[Path]) -> pl.DataFrame:
    read = [pq.ParquetFile(file).read() for file in files]
    rows = pl.from_arrow(pa.concat_tables([_no_rows("loss"), *read], promote_options="permissive"))
    return (
        cast(pl.DataFrame, rows)
        .group_by("collector", "reason")
        .agg(pl.col("count").sum(), pl.col("first_ts").min())
        .with_columns(pl.col("collector", "reason").fill_null("unknown"))
        .sort("count", "collector", "reason", descending=[True, False, False])
    )


def _rank_of(folder: Path) -> int | None:
    """Return the rank that a folder is named after; the trace's own has none."""
    number = folder.name.removeprefix(RANK_PREFIX)
    return int(number) if number != folder.name and number.isdecimal() else None


def _finished(folder: Path) -> list[Path]:
    """Return the finished files in a folder, of which there may be thousands, by name."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 (paths are slow to make and to sort)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [folder / n for n in sorted(names) if n.endswith(".parquet") and not n.startswith(".")]


def _version(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"schema_version is {value!r}")
    return value


def scan_files(files: Iterable[Path], table: str) -> pl.LazyFrame:
    """Return finished Parquet `files` of `table` as one lazy frame.

    Columns that an older file lacks are null; hive partitioning is off, since cudf-polars
    declines such scans.
    """
    return pl.scan_parquet(
        list(files),
        hive_partitioning=False,
        glob=False,
        schema=empty_table(table).schema,
        missing_columns="insert",
        extra_columns="ignore",
    )


@cache
def empty_table(table: str) -> pl.DataFrame:
    """Return `table` with its columns and no row; the same frame each time, not to be changed in place."""
    return cast(pl.DataFrame, pl.from_arrow(_no_rows(table)))


def _no_rows(table: str) -> pa.Table:
    """Return `table` without rows; `Schema.empty_table` imports pandas where that is installed."""
    return pa.Table.from_batches([], arrow_schema(table))


def _check_file(file: Path, table: str, root: Path) -> None:
    """Check that a file lies inside its trace, is whole, and has columns of the schema's types.

    Raises:
        TraceError: it does not.
    """
    if not file.resolve().is_relative_to(root.resolve()):
        raise TraceError(f"{file}: a link that leads out of the trace; copy the file instead")
    try:
        found = pq.read_schema(file)
    except (OSError, pa.ArrowException) as error:
        raise TraceError(
            f"{file}: cut short at byte {_size(file)} or damaged, not a complete Parquet file;"
            " move it away to read the rest of the trace"
        ) from error
    for field in arrow_schema(table):
        if field.name in found.names and not _alike(found.field(field.name).type, field.type):
            raise TraceError(
                f"{file}: column '{field.name}' is {found.field(field.name).type}, but the schema"
                f" says {field.type}; was it written by something else?"
            )


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _alike(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether two types are the same to a reader: long and short offsets are."""
    if pa.types.is_large_string(found) or pa.types.is_string_view(found):
        found = pa.string()
    if pa.types.is_list(wanted) and (pa.types.is_list(found) or pa.types.is_large_list(found)):
        return _alike(found.value_type, wanted.value_type)
    return bool(found == wanted)
