"""SQLite files give the rows that SQLite gives, and what damage leaves of them."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pasta.collect.containers.sqlite_tables import SqliteTables
from pasta.collect.losses import Losses
from pasta.errors import InputError

INTEGER, FLOAT, TEXT, BLOB = pa.int64(), pa.float64(), pa.string(), pa.binary()


def make(path: Path, *statements: str, rows: Any = None, page_size: int = 4096) -> Path:
    """Write a database; `rows` = (INSERT statement, its parameter sets)."""
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA page_size = {page_size}")
    for statement in statements:
        connection.execute(statement)
    if rows is not None:
        connection.executemany(*rows)
    connection.commit()
    connection.close()
    return path


def read(
    path: Path, table: str, columns: dict[str, pa.DataType], *, strict: bool = False
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    losses = Losses("test", "file", strict=strict)
    with SqliteTables(path, losses) as tables:
        rows = tables.table(table, columns).to_pylist()
    return rows, {loss.reason: loss.count for loss in losses}


def numbered(path: Path, count: int = 20_000, page_size: int = 1024) -> Path:
    """Write a table of `count` rows (n, n squared, text)."""
    rows = ((n, n * n, f"row {n} " * (n % 5)) for n in range(count))
    return make(
        path,
        "CREATE TABLE t (n INTEGER, square INTEGER, text TEXT)",
        rows=("INSERT INTO t VALUES (?, ?, ?)", rows),
        page_size=page_size,
    )


def test_names_are_those_of_stored_tables(tmp_path: Path) -> None:
    path = make(
        tmp_path / "x.db",
        'CREATE TABLE "a b" (x, "Y y" TEXT, z INTEGER AS (x + 1) VIRTUAL, w AS (x) STORED)',
        "CREATE VIEW v AS SELECT * FROM sqlite_master",
        'CREATE INDEX i ON "a b" (x)',
    )
    losses = Losses("test")
    with SqliteTables(path, losses) as tables:
        assert tables.names == ["a b"]
        assert tables.columns("A B") == ["x", "Y y", "w"]
        assert tables.columns("v") == []
    assert list(losses) == []


def test_absent_tables_are_empty_and_absent_columns_null(tmp_path: Path) -> None:
    path = make(tmp_path / "x.db", "CREATE TABLE t (n)", "INSERT INTO t VALUES (7)")
    assert read(path, "none", {"n": INTEGER}) == ([], {})
    rows, losses = read(path, "T", {"N": INTEGER, "m": TEXT})
    assert rows == [{"N": 7, "m": None}]
    assert losses == {}


def test_a_row_that_is_older_than_a_column_has_it_null(tmp_path: Path) -> None:
    path = make(
        tmp_path / "x.db",
        "CREATE TABLE t (n)",
        "INSERT INTO t VALUES (7)",
        "ALTER TABLE t ADD COLUMN m",
        "INSERT INTO t VALUES (8, 9)",
    )
    assert read(path, "t", {"n": INTEGER, "m": INTEGER})[0] == [
        {"n": 7, "m": None},
        {"n": 8, "m": 9},
    ]


def test_an_integer_primary_key_is_the_rowid(tmp_path: Path) -> None:
    path = make(
        tmp_path / "x.db",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, x)",
        "CREATE TABLE u (id INT PRIMARY KEY, x)",
        "INSERT INTO t VALUES (-5, 1), (1 << 40, 2)",
        "INSERT INTO u VALUES (6, 1)",
    )
    assert read(path, "t", {"id": INTEGER})[0] == [{"id": -5}, {"id": 1 << 40}]
    assert read(path, "u", {"id": INTEGER})[0] == [{"id": 6}]


def test_integers_of_every_size(tmp_path: Path) -> None:
    numbers = [0, 1, -1, *(sign * (1 << bits) + off for bits in (7, 15, 23, 31, 47, 62)
                           for sign in (1, -1) for off in (-1, 0, 1))]  # fmt: skip
    numbers += [(1 << 63) - 1, -(1 << 63)]
    path = make(
        tmp_path / "x.db", "CREATE TABLE t (n)", rows=("INSERT INTO t VALUES (?)", zip(numbers))
    )
    rows, losses = read(path, "t", {"n": INTEGER})
    assert [row["n"] for row in rows] == numbers
    assert losses == {}


def test_values_of_other_types_are_converted_or_counted(tmp_path: Path) -> None:
    values = [3, "4", "x", b"\x01\x02", 2.0, 2.5, None, 1e30]
    path = make(
        tmp_path / "x.db", "CREATE TABLE t (v)", rows=("INSERT INTO t VALUES (?)", zip(values))
    )
    rows, losses = read(path, "t", {"v": INTEGER})
    assert [row["v"] for row in rows] == [3, 4, None, None, 2, None, None, None]
    assert losses == {"t.v is not a whole number that fits: read as null": 4}
    rows, losses = read(path, "t", {"v": FLOAT})
    assert [row["v"] for row in rows] == [3.0, None, None, None, 2.0, 2.5, None, 1e30]
    assert losses == {"t.v is not a number: read as null": 3}
    rows, losses = read(path, "t", {"v": TEXT})
    assert [row["v"] for row in rows] == ["3", "4", "x", "\1\2", "2.0", "2.5", None, "1e+30"]
    assert read(path, "t", {"v": BLOB})[0][3] == {"v": b"\x01\x02"}
    with pytest.raises(InputError, match=r"^file at table t: t\.v is not|^file: t\.v is not"):
        read(path, "t", {"v": INTEGER}, strict=True)


def test_texts_that_are_no_utf8_are_mended_and_counted(tmp_path: Path) -> None:
    path = make(
        tmp_path / "x.db",
        "CREATE TABLE t (v TEXT)",
        "INSERT INTO t VALUES (CAST(x'61F0288C62' AS TEXT)), ('good')",
    )
    rows, losses = read(path, "t", {"v": TEXT})
    assert [row["v"] for row in rows] == ["a\ufffd(\ufffdb", "good"]
    assert losses == {"t.v: text that is no utf-8: read with replacement characters": 1}


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_texts_in_utf16(encoding: str, tmp_path: Path) -> None:
    path = make(
        tmp_path / "x.db",
        f"PRAGMA encoding = '{encoding}'",
        "CREATE TABLE t (v TEXT)",
        "INSERT INTO t VALUES ('häh 🎉'), (NULL)",
    )
    assert read(path, "T", {"V": TEXT}) == ([{"V": "häh 🎉"}, {"V": None}], {})


@pytest.mark.parametrize("page_size", [512, 4096, 65536])
def test_long_texts_go_on_in_other_pages(page_size: int, tmp_path: Path) -> None:
    texts = [chr(97 + size % 26) * size for size in (0, 11, 12, 13, 477, 478, 5000, 200_000, 3)]
    path = make(
        tmp_path / "x.db",
        "CREATE TABLE t (v TEXT)",
        rows=("INSERT INTO t VALUES (?)", zip(texts)),
        page_size=page_size,
    )
    rows, losses = read(path, "t", {"v": TEXT})
    assert [row["v"] for row in rows] == texts
    assert losses == {}


def test_rows_that_are_too_large_are_left_out(tmp_path: Path) -> None:
    path = make(
        tmp_path / "x.db",
        "CREATE TABLE t (v)",
        "INSERT INTO t VALUES (zeroblob(5 << 20)), ('small')",
    )
    rows, losses = read(path, "t", {"v": TEXT})
    assert rows == [{"v": "small"}]
    assert losses == {"t: row that is larger than 4 MiB: left out": 1}


def test_many_pages_in_order_and_in_small_batches(tmp_path: Path) -> None:
    path = numbered(tmp_path / "x.db", 200_000)
    with SqliteTables(path, Losses("test", strict=True)) as tables:
        batches = list(tables.read("t", {"square": INTEGER, "text": TEXT}))
    assert max(batch.num_rows for batch in batches) <= 1 << 16
    table = pa.Table.from_batches(batches)
    assert table["square"].to_pylist() == [n * n for n in range(200_000)]
    assert table["text"].to_pylist()[123_459] == "row 123459 " * 4


def test_a_table_without_rowids_is_counted(tmp_path: Path) -> None:
    path = make(
        tmp_path / "x.db",
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b) WITHOUT ROWID",
        "INSERT INTO t VALUES (1, 2)",
    )
    rows, losses = read(path, "t", {"a": INTEGER})
    assert rows == []
    assert losses == {"t: table whose definition cannot be used: left out": 1}


def test_nothing_is_written_beside_the_file_and_a_log_is_told(tmp_path: Path) -> None:
    path = make(tmp_path / "a#b?c%20.db", "CREATE TABLE t (n)", "INSERT INTO t VALUES (1)")
    assert read(path, "t", {"n": INTEGER}) == ([{"n": 1}], {})
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    path.with_name(f"{path.name}-wal").write_bytes(b"x")
    (reason,) = read(path, "t", {"n": INTEGER})[1]
    assert "write-ahead log" in reason


def test_a_definition_that_selects_is_not_run(tmp_path: Path) -> None:
    path = make(tmp_path / "x.db", "CREATE TABLE t (n)", "CREATE TABLE u (n)")
    forever = (
        "CREATE TABLE t AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
        " SELECT x FROM c"
    )
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = 't'", (forever,))
    connection.commit()
    connection.close()
    losses = Losses("test")
    with SqliteTables(path, losses) as tables:
        assert tables.names == ["u"]
    assert [loss.reason for loss in losses] == [
        "t: table whose definition cannot be used: left out"
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no SQLite file"),
        (b"SQLite format 3\0", "is no SQLite file"),
        (b"PK\3\4" + bytes(200), "is no SQLite file"),
        (b"SQLite format 3\0" + bytes(200), "ends early or is damaged"),
        (b"SQLite format 3\0\x10\0" + bytes(2000), "ends early or is damaged"),
    ],
)
def test_what_is_no_database_is_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"^file: .*{message}"):
        read(path, "t", {"n": INTEGER})


def test_a_file_cut_at_90_percent_gives_its_rows(tmp_path: Path) -> None:
    path = numbered(tmp_path / "x.db")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 9 // 10])
    rows, losses = read(path, "t", {"n": INTEGER, "square": INTEGER, "text": TEXT})
    assert all(
        row == {"n": row["n"], "square": row["n"] ** 2, "text": f"row {row['n']} " * (row["n"] % 5)}
        for row in rows
    )
    assert 17_000 < len({row["n"] for row in rows}) == len(rows) < 20_000
    pages = "t: page that cannot be read: the rows on it and below it are left out"
    assert losses[pages] > 0
    assert sum("ends early" in reason for reason in losses) == 1
    with pytest.raises(InputError, match="the SQLite file ends early"):
        read(path, "t", {"n": INTEGER}, strict=True)


def test_damaged_pages_cost_their_own_rows_only(tmp_path: Path) -> None:
    path = numbered(tmp_path / "x.db")
    content = bytearray(path.read_bytes())
    for page in (100, 200, 300):
        content[1024 * page : 1024 * page + 512] = b"\xff" * 512
    path.write_bytes(content)
    rows, losses = read(path, "t", {"n": INTEGER, "square": INTEGER})
    assert all(row["square"] == row["n"] ** 2 for row in rows)
    assert 19_000 < len(rows) < 20_000
    assert losses == {"t: page that cannot be read: the rows on it and below it are left out": 3}


def test_a_tree_that_runs_in_a_circle_ends(tmp_path: Path) -> None:
    path = numbered(tmp_path / "x.db")
    content = bytearray(path.read_bytes())
    root = sqlite3.connect(path).execute("SELECT rootpage FROM sqlite_master").fetchone()[0]
    first = 1024 * (root - 1)
    content[first + 8 : first + 12] = root.to_bytes(4, "big")
    path.write_bytes(content)
    rows, losses = read(path, "t", {"n": INTEGER})
    assert 0 < len(rows) < 20_000
    assert sum(losses.values()) == 1


VALUES = st.one_of(
    st.none(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-200, 200),
    st.floats(allow_nan=False),
    st.text(max_size=2000),
    st.text(max_size=20),
    st.binary(max_size=300),
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.lists(st.tuples(VALUES, VALUES, st.integers(-(1 << 63), (1 << 63) - 1)), max_size=60),
    page_size=st.sampled_from([512, 1024, 4096, 65536]),
)
def test_values_are_those_that_sqlite_reads(
    rows: list[tuple[Any, ...]], page_size: int, tmp_path: Path
) -> None:
    path = make(
        tmp_path / "x.db",
        "CREATE TABLE t (a, b, c)",
        rows=("INSERT INTO t VALUES (?, ?, ?)", rows),
        page_size=page_size,
    )
    connection = sqlite3.connect(path)
    expected = connection.execute("SELECT c, CAST(a AS BLOB), typeof(b), b FROM t").fetchall()
    connection.close()
    found, _ = read(path, "t", {"c": INTEGER, "a": BLOB, "b": FLOAT})
    assert [row["c"] for row in found] == [row[0] for row in expected]
    for row, (_, text, kind, number) in zip(found, expected, strict=True):
        assert row["b"] == (float(number) if kind in {"real", "integer"} else None)
        if not isinstance(text, bytes) or b"e" not in text.lower():
            assert row["a"] == text or f"{float(row['a']) + 0.0:.15g}" == f"{float(text):.15g}"


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 1 << 32), page_size=st.sampled_from([512, 1024, 4096]))
def test_whatever_is_wrong_rows_or_one_line(seed: int, page_size: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    path = numbered(tmp_path / "x.db", 3000, page_size)
    content = bytearray(path.read_bytes())
    for _ in range(chance.randrange(1, 30)):
        at = chance.choice([chance.randrange(len(content)), chance.randrange(200)])
        content[at : at + chance.randrange(1, 9)] = chance.randbytes(chance.randrange(1, 9))
    if chance.random() < 0.3:
        del content[chance.randrange(len(content)) :]
    path.write_bytes(content)
    with contextlib.suppress(InputError):
        rows, _ = read(path, "t", {"n": INTEGER, "square": FLOAT, "text": TEXT})
        assert len(rows) <= 3000 * 8
