"""Changes of SQLite files: of values, rows, tables and schemas, and of pages and their headers."""

from __future__ import annotations

import contextlib
import sqlite3
from random import Random
from typing import Any

from .oddities import BYTES, near, odd_scalar, odd_text
from .raw import cut, flip, mutate_bytes

_HEADER_FIELDS = {16: 2, 18: 1, 19: 1, 20: 1, 21: 1, 22: 1, 23: 1, 24: 4, 28: 4, 32: 4, 36: 4, 40: 4, 44: 4, 48: 4, 52: 4, 56: 4, 60: 4, 92: 4, 96: 4}  # fmt: skip
_PAGE_FIELDS = {0: 1, 1: 2, 3: 2, 5: 2, 7: 1, 8: 4, 12: 2}
_INT64 = 1 << 63


def mutate_sqlite(data: bytes, random: Random) -> bytes:
    """Return the file with its content, its schema or its pages changed."""
    if data and random.random() < 0.55:
        with contextlib.suppress(sqlite3.Error):
            data = _changed_content(data, random)
    if random.random() < 0.5:
        for _ in range(random.choice([1, 1, 2, 5])):
            data = random.choice(_PAGES)(data, random)
    return data


def _changed_content(data: bytes, random: Random) -> bytes:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.deserialize(data)
        connection.execute("PRAGMA trusted_schema = off")
        for _ in range(random.choice([1, 1, 2, 4])):
            with contextlib.suppress(sqlite3.Error, UnicodeEncodeError, OverflowError):
                random.choice(_CONTENT)(connection, random)
        return connection.serialize()
    finally:
        connection.close()


def _table(connection: sqlite3.Connection, random: Random) -> tuple[str, list[str]]:
    """Return a table and its columns, quoted."""
    tables = [
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if isinstance(name, str)
    ]
    if not tables:
        raise sqlite3.DatabaseError
    table = _quoted(random.choice(tables))
    columns = [_quoted(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]
    if not columns:
        raise sqlite3.DatabaseError
    return table, columns


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _odd_value(random: Random) -> Any:
    value = random.choice(BYTES) if random.random() < 0.15 else odd_scalar(random)
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        return random.choice([float(value) if abs(value) < 10**300 else 1e300, str(value)[:4000]])
    return value


def _set_value(connection: sqlite3.Connection, random: Random) -> None:
    table, columns = _table(connection, random)
    row = f"rowid = (SELECT rowid FROM {table} LIMIT 1 OFFSET {random.randrange(4)})"
    connection.execute(
        f"UPDATE {table} SET {random.choice(columns)} = ? WHERE {random.choice([row, '1'])}",
        (_odd_value(random),),
    )


def _nudge(connection: sqlite3.Connection, random: Random) -> None:
    table, columns = _table(connection, random)
    column = random.choice(columns)
    row = random.choice(
        connection.execute(f"SELECT rowid, {column} FROM {table}").fetchall() or [(0, 0)]
    )
    value = near(row[1], random) if isinstance(row[1], int) else odd_text(random)
    connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, row[0]))


def _swap_columns(connection: sqlite3.Connection, random: Random) -> None:
    table, columns = _table(connection, random)
    one, other = random.choice(columns), random.choice(columns)
    connection.execute(f"UPDATE {table} SET {one} = {other}, {other} = {one}")


def _delete_rows(connection: sqlite3.Connection, random: Random) -> None:
    table, _ = _table(connection, random)
    where = random.choice(["1", "rowid % 2", "rowid = (SELECT min(rowid) FROM {0})"])
    connection.execute(f"DELETE FROM {table} WHERE {where.format(table)}")


def _repeat_rows(connection: sqlite3.Connection, random: Random) -> None:
    table, columns = _table(connection, random)
    names = ", ".join(columns)
    connection.execute(
        f"INSERT OR IGNORE INTO {table} ({names}) SELECT {names} FROM {table} LIMIT 50"
    )


def _row_of_oddities(connection: sqlite3.Connection, random: Random) -> None:
    table, columns = _table(connection, random)
    values = [_odd_value(random) if random.random() < 0.5 else 1 for _ in columns]
    connection.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(values))})", values)


def _drop(connection: sqlite3.Connection, random: Random) -> None:
    table, columns = _table(connection, random)
    if random.random() < 0.4:
        connection.execute(f"DROP TABLE {table}")
    else:
        connection.execute(f"ALTER TABLE {table} DROP COLUMN {random.choice(columns)}")


def _rename(connection: sqlite3.Connection, random: Random) -> None:
    table, columns = _table(connection, random)
    name = _quoted(random.choice([odd_text(random)[:100], "start", "end", "id", "name", "value"]))
    column = "" if random.random() < 0.4 else f"COLUMN {random.choice(columns)}"
    connection.execute(f"ALTER TABLE {table} RENAME {column} TO {name}")


def _retyped(connection: sqlite3.Connection, random: Random) -> None:
    """Make a table anew with columns of other types, or without row ids, or as a view."""
    table, columns = _table(connection, random)
    old = _quoted("old of it")
    connection.execute(f"ALTER TABLE {table} RENAME TO {old}")
    if random.random() < 0.3:
        source = random.choice(
            [
                f"SELECT * FROM {old}",
                "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
                f"SELECT * FROM {table}",
            ]
        )
        connection.execute(f"CREATE VIEW {table} AS {source}")
        return
    kinds = ["TEXT", "INTEGER", "REAL", "BLOB", "NUMERIC", "", "TEXT COLLATE NOCASE DEFAULT 'x'"]
    definitions = [f"{column} {random.choice(kinds)}" for column in columns]
    if random.random() < 0.2:
        definitions.append(f"made AS ({columns[0]} + 1) {random.choice(['STORED', 'VIRTUAL'])}")
    key, ending = "", random.choice(["", "", " STRICT"])
    if random.random() < 0.3:
        key, ending = f", PRIMARY KEY ({columns[0]})", " WITHOUT ROWID"
    connection.execute(f"CREATE TABLE {table} ({', '.join(definitions)}{key}){ending}")
    names = ", ".join(columns)
    connection.execute(f"INSERT OR IGNORE INTO {table} ({names}) SELECT {names} FROM {old}")
    connection.execute(f"DROP TABLE {old}")


def _add(connection: sqlite3.Connection, random: Random) -> None:
    table, columns = _table(connection, random)
    statement = random.choice(
        [
            f"ALTER TABLE {table} ADD COLUMN extra DEFAULT 7",
            f"CREATE INDEX extra ON {table} ({columns[0]})",
            f"CREATE TRIGGER extra AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END",
            "CREATE TABLE extra (a INTEGER PRIMARY KEY, b)",
            "CREATE VIRTUAL TABLE extra USING fts5(a)",
        ]
    )
    connection.execute(statement)


def _schema_text(connection: sqlite3.Connection, random: Random) -> None:
    """Write into the schema what SQLite itself would not."""
    connection.execute("PRAGMA writable_schema = on")
    column = random.choice(["sql", "name", "tbl_name", "rootpage", "type"])
    value = random.choice([odd_text(random), None, 0, 1, 2, 10**9, -1, "CREATE TABLE x(", b"\xff"])
    row = f"(SELECT rowid FROM sqlite_master LIMIT 1 OFFSET {random.randrange(8)})"
    connection.execute(f"UPDATE sqlite_master SET {column} = ? WHERE rowid = {row}", (value,))


def _rebuilt(connection: sqlite3.Connection, random: Random) -> None:
    """Lay the file out in another way; encodings can only change in an empty one."""
    connection.execute(f"PRAGMA page_size = {random.choice([512, 1024, 4096, 65536])}")
    connection.execute(f"PRAGMA auto_vacuum = {random.choice([0, 1, 2])}")
    connection.execute("VACUUM")


_CONTENT = [_set_value, _set_value, _set_value, _nudge, _nudge, _swap_columns, _delete_rows, _repeat_rows, _row_of_oddities, _drop, _rename, _retyped, _add, _schema_text, _rebuilt]  # fmt: skip


def _page_size(data: bytes) -> int:
    size = int.from_bytes(data[16:18], "big")
    return 65536 if size == 1 else max(size, 512)


def _header(data: bytes, random: Random) -> bytes:
    offset, size = random.choice(list(_HEADER_FIELDS.items()))
    return _overwritten(data, offset, size, random)


def _page_header(data: bytes, random: Random) -> bytes:
    page = random.randrange(max(len(data) // _page_size(data), 1))
    offset, size = random.choice(list(_PAGE_FIELDS.items()))
    return _overwritten(
        data, page * _page_size(data) + (100 if page == 0 else 0) + offset, size, random
    )


def _cell_pointer(data: bytes, random: Random) -> bytes:
    page = random.randrange(max(len(data) // _page_size(data), 1))
    start = page * _page_size(data) + (108 if page == 0 else 8)
    return _overwritten(data, start + 2 * random.randrange(8), 2, random)


def _used_byte(data: bytes, random: Random) -> bytes:
    """Change a byte that is not zero, and so not of unused space."""
    for _ in range(50):
        at = random.randrange(max(len(data), 1))
        if data[at : at + 1] not in (b"", b"\0"):
            return _overwritten(data, at, random.choice([1, 1, 2, 4]), random)
    return data


def _overwritten(data: bytes, at: int, size: int, random: Random) -> bytes:
    old = int.from_bytes(data[at : at + size], "big")
    highest = (1 << 8 * size) - 1
    new = random.choice(
        [0, 1, 2, 5, 10, 13, highest, highest >> 1, old + 1, old - 1, random.getrandbits(8 * size)]
    )
    return data[:at] + (new & highest).to_bytes(size, "big") + data[at + size :]


def _swap_pages(data: bytes, random: Random) -> bytes:
    size = _page_size(data)
    pages = [data[at : at + size] for at in range(0, len(data), size)] or [data]
    one, other = random.randrange(len(pages)), random.randrange(len(pages))
    pages[one] = pages[other]
    return b"".join(pages)


_PAGES = [_header, _page_header, _page_header, _cell_pointer, _used_byte, _used_byte, _used_byte, _swap_pages, flip, cut, mutate_bytes]  # fmt: skip
