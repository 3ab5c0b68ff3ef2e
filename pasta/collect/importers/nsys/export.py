"""The tables of an export, whatever it is stored as: SQLite, or a folder of Arrow or Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from pasta.collect.containers.arrow_files import ArrowFile
from pasta.collect.containers.sqlite_pages import MAGIC
from pasta.collect.containers.sqlite_tables import SqliteTables
from pasta.collect.losses import Losses
from pasta.collect.shaping.columns import Columns
from pasta.collect.sources import Source, files_of
from pasta.errors import InputError

_SUFFIXES = (".arrow", ".arrows", ".parquet")
_MARKS = ("StringIds", "META_DATA_EXPORT", "NVTX_EVENTS", "OSRT_API")
_MARK_START = "CUPTI_ACTIVITY_KIND_"


class Export(Protocol):
    """What every kind of export offers; absent tables are empty, absent columns are null."""

    @property
    def names(self) -> list[str]:
        """The names of the tables."""

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns."""

    def read(self, table: str, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        """Yield chosen columns of a table as the given types."""


class FolderTables:
    """The tables of a folder that holds one Arrow or Parquet file for each.

    Args:
        folder: the folder.
        losses: where damage is counted.
    """

    def __init__(self, folder: Path, losses: Losses) -> None:
        self._losses = losses
        self._columns = Columns(losses)
        self._files = {
            file.stem.lower(): file for file in files_of(folder) if file.suffix in _SUFFIXES
        }

    @property
    def names(self) -> list[str]:
        """The names of the tables."""
        return [file.stem for file in self._files.values()]

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns; none where it is absent or damaged."""
        opened = self._open(table)
        return list(opened.schema.names) if opened else []

    def read(self, table: str, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        """Yield chosen columns of a table as the given types; see `SqliteTables.read`."""
        opened = self._open(table)
        if opened is None:
            return
        present = [name for name in columns if name in opened.schema.names]
        if not present:
            return
        for batch in opened.batches(present):
            yield pa.RecordBatch.from_arrays(
                [
                    self._fit(batch.column(name), kind, f"{table}.{name}")
                    if name in present
                    else pa.array([None] * batch.num_rows, kind)
                    for name, kind in columns.items()
                ],
                names=list(columns),
            )

    def _open(self, table: str) -> ArrowFile | None:
        file = self._files.get(table.lower())
        if file is None:
            return None
        try:
            return ArrowFile(file, str(file), self._losses)
        except InputError:
            self._losses.fault(
                f"{table}: file that cannot be read: left out", where=f"file {file.name}"
            )
            return None

    def _fit(self, column: pa.Array[Any], kind: pa.DataType, name: str) -> pa.Array[Any]:
        try:
            return column.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass
        values = column.to_pylist()
        if pa.types.is_string(kind):
            return self._columns.texts(values)
        if pa.types.is_floating(kind):
            self._losses.fault(f"{name} is not a number: read as null", len(values))
            return pa.array([None] * len(values), kind)
        return self._columns.numbers(values, kind, name)


def is_export(source: Source) -> bool:
    """Tell whether a source holds tables as Nsight Systems names them."""
    if source.folder is not None:
        return _has_marks(file.stem for file in files_of(source.folder) if file.suffix in _SUFFIXES)
    if not source.head.startswith(MAGIC):
        return False
    if any(mark.encode() in source.head for mark in (*_MARKS, _MARK_START)):
        return True
    if source.file is None:
        return False
    try:
        with SqliteTables(source.file, Losses("", source.name)) as tables:
            return _has_marks(tables.names)
    except (InputError, OSError):
        return False


def _has_marks(names: Any) -> bool:
    return any(name in _MARKS or name.startswith(_MARK_START) for name in names)
