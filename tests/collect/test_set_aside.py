"""Members of archives, and compressed databases, whose format only the whole of them tells."""

from __future__ import annotations

import contextlib
import gzip
import io
import sqlite3
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pasta.collect.importing import import_trace
from pasta.errors import InputError
from pasta.trace import Trace
from tests.collect.importers.nsys_help import KERNEL, export, folder, kernel

TABLES = {"CUPTI_ACTIVITY_KIND_KERNEL": (KERNEL, [kernel(10, 20), kernel(30, 45)])}


def packed(archive: Path, *members: tuple[str, Path]) -> Path:
    """Write a compressed archive of files under the names given."""
    with tarfile.open(archive, "w:gz") as tar:
        for name, file in members:
            tar.addfile(head := tar.gettarinfo(file, name), io.BytesIO(file.read_bytes()))
            assert head.name == name
    return archive


def durations(trace: Path) -> list[int]:
    return Trace.open(trace).scan("kernel").sort("ts").collect()["dur"].to_list()


@pytest.mark.parametrize(
    ("kind", "place"), [("arrow", "run/"), ("parquet", "run/"), ("parquet", "")]
)
def test_a_folder_in_an_archive_is_imported_as_one(tmp_path: Path, kind: str, place: str) -> None:
    files = sorted(folder(tmp_path / "x", kind, **TABLES).iterdir())
    archive = packed(tmp_path / "a.tar.gz", *((f"{place}{file.name}", file) for file in files))
    report = import_trace([archive], tmp_path / "out")
    assert durations(tmp_path / "out") == [10, 15]
    assert report.losses == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.gz", "out", "x"]


def test_folders_in_an_archive_are_ranks(tmp_path: Path) -> None:
    files = sorted(folder(tmp_path / "x", "parquet", **TABLES).iterdir())
    members = [(f"{run}/{file.name}", file) for file in files for run in ("one", "two")]
    report = import_trace([packed(tmp_path / "a.tar.gz", *members)], tmp_path / "out")
    assert report.ranks == [0, 1]
    assert report.rows["kernel"] == 4


def test_nothing_is_written_outside_of_the_folder(tmp_path: Path) -> None:
    files = sorted(folder(tmp_path / "x", "parquet", **TABLES).iterdir())
    members = [(f"../../{file.name}", file) for file in files]
    import_trace([packed(tmp_path / "a.tar.gz", *members)], tmp_path / "deep" / "er" / "out")
    assert durations(tmp_path / "deep" / "er" / "out") == [10, 15]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.gz", "deep", "x"]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["er"]


def test_a_member_that_is_named_as_a_folder_is_told_in_one_line(tmp_path: Path) -> None:
    table = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [1]}), table)
    with pytest.raises(InputError, match=r"a\.tar\.gz:run/\.\.: unknown format"):
        import_trace([packed(tmp_path / "a.tar.gz", ("run/..", table))], tmp_path / "out")


def test_tables_of_no_known_folder_are_told_by_their_names(tmp_path: Path) -> None:
    table = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [1]}), table)
    with pytest.raises(InputError, match=r"a\.tar\.gz:run/x\.parquet: unknown format .*--map"):
        import_trace([packed(tmp_path / "a.tar.gz", ("run/x.parquet", table))], tmp_path / "out")


@pytest.mark.parametrize("in_archive", [False, True])
def test_a_compressed_database_is_told_by_all_of_its_tables(
    tmp_path: Path, *, in_archive: bool
) -> None:
    """The names of the tables stand behind the first 64 KiB."""
    small = export(tmp_path / "x.sqlite", **TABLES)
    large = tmp_path / "large.sqlite"
    with contextlib.closing(sqlite3.connect(large, isolation_level="DEFERRED")) as connection:
        connection.execute("ATTACH ? AS small", [str(small)])
        connection.execute("BEGIN")
        for place in range(1500):
            connection.execute(f"CREATE TABLE other_{place:0>100} (a)")
        names = connection.execute("SELECT name FROM small.sqlite_schema").fetchall()
        for (name,) in names:
            connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM small."{name}"')
        connection.commit()
    content = large.read_bytes()
    assert not any(name.encode() in content[: 1 << 16] for (name,) in names)
    file = tmp_path / "large.sqlite.gz"
    file.write_bytes(gzip.compress(content))
    if in_archive:
        file = packed(tmp_path / "a.tar.gz", ("large.sqlite", large))
    import_trace([file], tmp_path / "out")
    assert durations(tmp_path / "out") == [10, 15]
