"""A trace on disk: a directory of Parquet tables with a `trace.json` beside them.

    t/trace.json
    t/span/000000.parquet            one process, or
    t/rank-0003/span/000000.parquet  a folder for each rank of several

Files that are being written have a temporary name, so that a reader sees only finished ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import polars as pl
import pyarrow.parquet as pq

from pasta.errors import TraceError, did_you_mean
from pasta.schema import SCHEMA_VERSION, TABLES, arrow_schema

MANIFEST = "trace.json"
RANK_FOLDER = "rank-{:05d}"
RANK_GLOB = "rank-*"
_PARQUET_MAGIC = b"PAR1"


class Trace:
    """A trace opened for reading.

    Attributes:
        path: the directory.
        info: the content of `trace.json`.
    """

    def __init__(self, path: Path, info: dict[str, Any]) -> None:
        self.path = path
        self.info = info

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
            version = int(info["schema_version"])
        except (ValueError, KeyError, TypeError) as error:
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

    def files(self, table: str) -> list[Path]:
        """Return the finished Parquet files of `table`, in rank and time order.

        Raises:
            TraceError: there is no table of that name in the schema, or a file is cut short.
        """
        if table not in TABLES:
            raise TraceError(f"no table '{table}'.{did_you_mean(table, TABLES)}")
        found = [
            file
            for folder in self._folders
            for file in sorted((folder / table).glob("*.parquet"))
            if not file.name.startswith(".")
        ]
        for file in found:
            _check_complete(file)
        return found

    def tables(self) -> list[str]:
        """Return the names of the tables that have rows."""
        return [table for table in TABLES if self.files(table)]

    def scan(self, table: str) -> pl.LazyFrame:
        """Return `table` as a lazy frame over all ranks.

        Raises:
            TraceError: the trace has no such table.
        """
        files = self.files(table)
        if not files:
            raise TraceError(
                f"{self.path}: no table '{table}'; this trace has {', '.join(self.tables())}"
            )
        return scan_files(files, table)

    def rows(self, table: str) -> int:
        """Return the number of rows of `table`, from the files' footers."""
        return sum(pq.read_metadata(file).num_rows for file in self.files(table))

    def losses(self) -> pl.DataFrame:
        """Return the `loss` table summed over ranks and processes, largest count first."""
        files = self.files("loss")
        rows = scan_files(files, "loss") if files else empty_table("loss").lazy()
        return (
            rows.group_by("collector", "reason")
            .agg(pl.col("count").sum(), pl.col("first_ts").min())
            .sort("count", "collector", "reason", descending=[True, False, False])
            .collect()
        )


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


def empty_table(table: str) -> pl.DataFrame:
    """Return `table` with its columns and no row."""
    return cast(pl.DataFrame, pl.from_arrow(arrow_schema(table).empty_table()))


def _check_complete(file: Path) -> None:
    size = file.stat().st_size
    with file.open("rb") as stream:
        stream.seek(max(0, size - len(_PARQUET_MAGIC)))
        if size < 12 or stream.read() != _PARQUET_MAGIC:
            raise TraceError(
                f"{file}: cut short at byte {size}, not a complete Parquet file;"
                " move it away to read the rest of the trace"
            )
