"""Reading the tables of an SQLite file, sound or damaged, as Arrow batches.

Every row that stands on a readable page is read; what cannot be read is counted, table by table.
Nothing of the file is executed: its schema is only parsed, and views, triggers and virtual tables
do not exist here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from pasta.collect.containers.sqlite_pages import Pages
from pasta.collect.containers.sqlite_records import Fields, fields_of, records_of
from pasta.collect.containers.sqlite_values import Values
from pasta.collect.losses import Losses

_SCHEMA_ROOT = 1
_SCHEMA_COLUMNS = ("type", "name", "tbl_name", "rootpage", "sql")
_SQL_BYTES_MAX = 1 << 20
_VIRTUAL_GENERATED = 2
_ALLOWED = frozenset(
    {
        sqlite3.SQLITE_CREATE_TABLE,
        sqlite3.SQLITE_CREATE_INDEX,
        sqlite3.SQLITE_INSERT,
        sqlite3.SQLITE_UPDATE,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
    }
)
"""What SQLite may do to parse a definition; all but SELECT, which could run something."""


@dataclass(frozen=True)
class _Table:
    """Where a table's tree begins, and its columns in the order in which rows store them."""

    name: str
    root: int
    columns: tuple[str, ...]
    rowid: str = ""
    places: dict[str, int] = field(default_factory=dict)


class SqliteTables:
    """The tables of one file; a context manager that closes it.

    Names of tables and columns are case-insensitive, as they are for SQLite.

    Args:
        file: a plain file on disk; it is only read.
        losses: where damage is counted, by table.

    Raises:
        InputError: it is no SQLite file, nothing of it can be read, or in strict mode it is
            damaged.
    """

    def __init__(self, file: Path, losses: Losses) -> None:
        self._losses = losses
        self._pages = Pages(file, losses.source or str(file))
        self._values = Values(losses, self._pages.encoding)
        try:
            self._check(file)
            self._tables = self._read_schema()
        except BaseException:
            self._pages.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pages.close()

    @property
    def names(self) -> list[str]:
        """The tables' names, as the file has them."""
        return [table.name for table in self._tables.values()]

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns; none where the table is absent."""
        found = self._tables.get(table.lower())
        return list(found.columns) if found else []

    def read(self, table: str, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        """Yield chosen columns of a table, at most 2^16 rows at a time.

        A column that the table lacks is null throughout; a table that is absent has no rows. A
        value of another type is converted where it has a meaning in the column's type, as a
        number written as text has, else it is null and counted.

        Args:
            table: the table.
            columns: name -> `int64`, `float64`, `string` or `binary`. A REAL read as a whole
                number has to be one; a huge unsigned number, which SQLite holds as a negative
                one, can be had by viewing the column as `uint64`.

        Raises:
            InputError: in strict mode, part of the table cannot be read.
        """
        found = self._tables.get(table.lower())
        return iter(()) if found is None else self._read(found, columns)

    def table(self, name: str, columns: Mapping[str, pa.DataType]) -> pa.Table:
        """Return chosen columns of a small table as a whole; as `read` otherwise."""
        schema = pa.schema(list(columns.items()))
        return pa.Table.from_batches(self.read(name, columns), schema)

    def _read(self, table: _Table, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        width = len(table.columns)

        def lost(what: str, rows: int, page: int = 0) -> None:
            where = f"page {page}" if page else f"table {table.name}"
            self._losses.fault(f"{table.name}: {what}", rows, where=where)

        def lost_rows(what: str, rows: int) -> None:
            lost(f"{what}: left out", rows)

        def lost_pages(count: int, page: int) -> None:
            lost("page that cannot be read: the rows on it and below it are left out", count, page)

        for numbers, content in self._pages.leaves(table.root, lost_pages):
            records = records_of(self._pages, numbers, content, lost_rows)
            for piece in records.pieces(width):
                fields = fields_of(piece, width, lost_rows)
                yield pa.RecordBatch.from_arrays(
                    [self._column(fields, table, name, kind) for name, kind in columns.items()],
                    names=list(columns),
                )

    def _column(self, fields: Fields, table: _Table, name: str, kind: pa.DataType) -> pa.Array[Any]:
        place = table.places.get(name.lower())
        if place is None:
            return pa.nulls(len(fields.body), kind)  # type: ignore[call-overload,no-any-return]
        if name.lower() == table.rowid:
            return pa.array(fields.records.rowid).cast(kind)
        return self._values.column(fields, place, kind, f"{table.name}.{name}")

    def _check(self, file: Path) -> None:
        there, told = self._pages.count, self._pages.told
        if there < told:
            self._losses.fault(
                f"the SQLite file ends early, with {there} of {told} pages: read as far as it goes"
            )
        log = file.with_name(f"{file.name}-wal")
        if log.is_file() and log.stat().st_size:
            self._losses.fault(
                "a write-ahead log lies beside the SQLite file, what it holds was not read: open"
                " and close the file once with sqlite3 to merge it"
            )

    def _read_schema(self) -> dict[str, _Table]:
        places = {name: place for place, name in enumerate(_SCHEMA_COLUMNS)}
        schema = _Table("the schema", _SCHEMA_ROOT, _SCHEMA_COLUMNS, places=places)
        columns: dict[str, pa.DataType] = {
            "type": pa.string(),
            "name": pa.string(),
            "rootpage": pa.int64(),
            "sql": pa.string(),
        }
        found: dict[str, _Table] = {}
        for batch in self._read(schema, columns):
            for row in batch.to_pylist():
                if row["type"] == "table" and row["name"] and (row["rootpage"] or 0) > 0:
                    self._add_table(found, row)
        return found

    def _add_table(self, found: dict[str, _Table], row: dict[str, Any]) -> None:
        name = row["name"]
        if name.lower().startswith("sqlite_") or name.lower() in found:
            return
        columns = _parsed_columns(row["sql"] or "")
        if not columns:
            self._losses.fault(f"{name}: table whose definition cannot be used: left out")
            return
        stored = [column for column, _ in columns]
        rowid = next((column.lower() for column, is_rowid in columns if is_rowid), "")
        places = {column.lower(): place for place, column in enumerate(stored)}
        found[name.lower()] = _Table(name, row["rootpage"], tuple(stored), rowid, places)


def _parsed_columns(sql: str) -> list[tuple[str, bool]]:
    """Return the stored columns that a CREATE TABLE names, and which stands for the rowid.

    SQLite parses it in an empty database in memory, in which it may do nothing but create a table.
    The result is empty where it is none, or a table that is not stored by rowid.
    """
    if len(sql) > _SQL_BYTES_MAX or sql[:12].upper() != "CREATE TABLE":
        return []
    memory = sqlite3.connect(":memory:")
    try:
        memory.execute("PRAGMA trusted_schema = OFF")
        memory.set_authorizer(_authorise)
        memory.execute(sql)
        memory.set_authorizer(None)
        (name,) = memory.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchone()
        quoted = '"' + name.replace('"', '""') + '"'
        described = memory.execute(f"PRAGMA table_xinfo({quoted})").fetchall()
        memory.execute(f"SELECT _rowid_ FROM {quoted}")  # noqa: S608 -- an empty table
        indexes = memory.execute(f"PRAGMA index_list({quoted})").fetchall()
    except (sqlite3.Error, sqlite3.Warning, ValueError, TypeError):
        return []
    finally:
        memory.close()
    keys = [row for row in described if row[5]]
    is_rowid = (
        len(keys) == 1
        and keys[0][2].upper() == "INTEGER"
        and all(row[3] != "pk" for row in indexes)
    )
    return [
        (row[1], is_rowid and row is keys[0]) for row in described if row[6] != _VIRTUAL_GENERATED
    ]


def _authorise(action: int, *_details: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY
