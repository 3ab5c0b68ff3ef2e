"""SQL over a trace's tables."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

import pasta.api
from pasta.cli import cli
from pasta.errors import PastaError
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
