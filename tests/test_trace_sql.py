"""SQL over a trace's tables."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

import pasta.api
from pasta.cli import cli
from pasta.errors import PastaError
from pasta.trace_sql import write_rows
from tests.conftest import TraceMaker

KERNELS = [{"name": name, "ts": ts, "dur": ts + 1} for ts, name in enumerate(["a", "b", "a"])]
QUERY = (
    "select name, count(*) as calls, sum(dur) as time_ns from kernel group by name order by name"
)


def test_rows_of_a_query(make_trace: TraceMaker) -> None:
    rows = pasta.api.sql(make_trace(kernel=KERNELS), QUERY)
    assert rows.rows() == [("a", 2, 4), ("b", 1, 2)]


def test_tables_join(make_trace: TraceMaker) -> None:
    trace = make_trace(
        kernel=[{"name": "k", "ts": 0, "correlation": 7}],
        call=[{"name": "launch", "ts": 0, "correlation": 7}],
    )
    query = (
        "select c.name as call, k.name from kernel k join call c on k.correlation = c.correlation"
    )
    assert pasta.api.sql(trace, query).rows() == [("launch", "k")]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("drop table kernel", "begins with drop, but a trace is only read"),
        ("  DELETE from kernel", "begins with DELETE, but a trace is only read"),
        ("select * from kernle", "'kernle' was not found; tables: kernel"),
        ("selct", "the query fails"),
        ("select nmae from kernel", "nmae"),
    ],
)
def test_mistakes_are_one_line(make_trace: TraceMaker, query: str, message: str) -> None:
    with pytest.raises(PastaError) as error:
        pasta.api.sql(make_trace(kernel=KERNELS), query)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_command_prints_or_writes_rows(make_trace: TraceMaker, tmp_path: Path) -> None:
    path = str(make_trace(kernel=KERNELS).path)
    shown = CliRunner().invoke(cli, ["trace", "sql", path, QUERY, "--limit", "1"])
    assert "1 of 2 rows" in shown.output
    for suffix, read in (
        (".parquet", pl.read_parquet),
        (".csv", pl.read_csv),
        (".arrow", pl.read_ipc),
    ):
        out = tmp_path / f"rows{suffix}"
        CliRunner().invoke(
            cli, ["trace", "sql", path, QUERY, "-o", str(out)], catch_exceptions=False
        )
        assert read(out).rows() == [("a", 2, 4), ("b", 1, 2)]
    refused = CliRunner().invoke(cli, ["trace", "sql", path, QUERY, "-o", str(tmp_path / "x.xls")])
    assert "name a file that ends in .parquet, .csv, .arrow" in str(refused.exception)


def test_a_query_that_is_no_text_is_one_line(make_trace: TraceMaker) -> None:
    with pytest.raises(PastaError, match="the query is not UTF-8"):
        pasta.api.sql(make_trace(kernel=KERNELS), "select '\udcff' from kernel")


def test_fewer_rows_than_none_are_refused(make_trace: TraceMaker) -> None:
    path = str(make_trace(kernel=KERNELS).path)
    refused = CliRunner().invoke(cli, ["trace", "sql", path, QUERY, "--limit", "-1"])
    assert refused.exit_code == 2
    assert "-1 is not in the range" in refused.output


def test_where_the_disk_is_full_nothing_is_left(tmp_path: Path, monkeypatch: Any) -> None:
    def full(_rows: pl.DataFrame, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pl.DataFrame, "write_ipc", full)
    with pytest.raises(PastaError, match="cannot be written"):
        write_rows(pl.DataFrame({"a": [1]}), tmp_path / "rows.arrow")
    assert list(tmp_path.iterdir()) == []


def test_a_hidden_file_of_the_users_is_none_of_ours(tmp_path: Path) -> None:
    own = tmp_path / ".rows.csv"
    own.write_text("mine")
    write_rows(pl.DataFrame({"a": [1]}), tmp_path / "rows.csv")
    with pytest.raises(PastaError, match="cannot be written"):
        write_rows(pl.DataFrame({"a": [1]}), tmp_path / "absent" / "rows.csv")
    assert own.read_text() == "mine"
    assert sorted(tmp_path.iterdir()) == [own, tmp_path / "rows.csv"]
