from __future__ import annotations

import math

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.collect.parquet_runs import Codes, Numbers, Runs, RunsFile

SCHEMA = pa.schema(
    [
        pa.field("number", pa.uint64()),
        pa.field("run", pa.int32()),
        pa.field("one", pa.int64()),
        pa.field("wide", pa.uint64()),
        pa.field("small", pa.uint8()),
        pa.field("code", pa.uint8()),
    ]
)


def group(rng: np.random.Generator, runs: int, distinct: int) -> tuple[dict, int, dict]:
    """Return columns, their rows, and what they are as plain arrays."""
    counts = rng.integers(1, 33, runs).astype(np.uint8)
    rows = int(counts.sum())
    number = rng.integers(0, 1 << 64, rows, dtype=np.uint64)
    run = rng.integers(-distinct, distinct, runs).astype(np.int32)
    wide = rng.integers(0, distinct, runs, dtype=np.uint64) << np.uint64(44)
    small = rng.integers(0, min(distinct, 256), runs).astype(np.uint8)
    code = rng.integers(0, 200, rows).astype(np.uint8)
    columns = {
        "number": Numbers(number),
        "run": Runs(run, counts),
        "one": Runs(np.array([-7 * distinct]), rows),
        "wide": Runs(wide, counts),
        "small": Runs(small, counts),
        "code": Codes(code, 200),
    }
    plain = {
        "number": number,
        "run": np.repeat(run, counts),
        "one": np.full(rows, -7 * distinct),
        "wide": np.repeat(wide, counts),
        "small": np.repeat(small, counts),
        "code": code,
    }
    return columns, rows, plain


def written(path, groups, **codec) -> pl.DataFrame:
    file = RunsFile(path, SCHEMA, **codec)
    for columns, rows, _ in groups:
        file.write(columns, rows)
    assert file.close() == path.stat().st_size
    frames = [pl.DataFrame(plain) for _, _, plain in groups]
    return pl.concat(frames).cast(dict(pl.DataFrame(SCHEMA.empty_table()).schema))


@pytest.mark.parametrize("codec", ["zstd", "lz4_raw", "uncompressed"])
@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 1 << 32),
    sizes=st.lists(st.integers(1, 1500), min_size=1, max_size=3),
    distinct=st.sampled_from([1, 2, 100, 1 << 15]),
)
def test_every_reader_finds_what_was_written(tmp_path_factory, codec, seed, sizes, distinct):
    rng = np.random.default_rng(seed)
    path = tmp_path_factory.mktemp("runs") / "file.parquet"
    level = 1 if codec == "zstd" else None
    groups = [group(rng, size, distinct) for size in sizes]
    want = written(path, groups, codec=codec, level=level)
    assert pl.read_parquet(path).equals(want)
    assert pl.from_arrow(pq.read_table(path)).equals(want)


def test_duckdb_finds_what_was_written(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    rng = np.random.default_rng(11)
    path = tmp_path / "file.parquet"
    want = written(path, [group(rng, 900, 1000), group(rng, 5, 1)])
    assert duckdb.sql(f"select * from '{path}'").pl().equals(want)


def test_the_footer_tells_types_rows_and_ranges(tmp_path):
    rng = np.random.default_rng(3)
    groups = [group(rng, 500, 1000), group(rng, 70, 5)]
    want = written(tmp_path / "file.parquet", groups)
    file = pq.ParquetFile(tmp_path / "file.parquet")
    assert file.schema_arrow.equals(SCHEMA, check_metadata=True)
    assert file.metadata.num_rows == want.height
    for number, (_, rows, plain) in enumerate(groups):
        told = file.metadata.row_group(number)
        assert told.num_rows == rows
        for column, name in enumerate(SCHEMA.names):
            statistics = told.column(column).statistics
            if name == "code":  # the numbers that there are codes for
                assert (statistics.min, statistics.max) == (0, 199)
            else:
                assert (statistics.min, statistics.max) == (plain[name].min(), plain[name].max())
            assert statistics.null_count == 0


def test_readers_leave_out_what_a_filter_excludes(tmp_path):
    groups = [group(np.random.default_rng(seed), 300, 1 << 15) for seed in range(4)]
    want = written(tmp_path / "file.parquet", groups)
    for chosen in (pl.col("number") > 1 << 63, pl.col("run") < -20_000, pl.col("wide") == 1 << 60):
        got = pl.scan_parquet(tmp_path / "file.parquet").filter(chosen).collect()
        assert got.equals(want.filter(chosen))


def test_runs_are_small(tmp_path):
    counts = np.full(4096, 32, np.uint8)
    columns = group(np.random.default_rng(0), 1, 2)[0]
    columns = {name: Runs(np.arange(4096).astype(np.uint8), counts) for name in columns}
    schema = pa.schema([pa.field(name, pa.uint8()) for name in columns])
    file = RunsFile(tmp_path / "small.parquet", schema)
    file.write(columns, 4096 * 32)
    size = file.close()
    assert size < math.prod([len(columns), 4096, 32]) / 50
