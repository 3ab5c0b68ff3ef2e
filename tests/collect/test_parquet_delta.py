from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.collect.parquet_delta import delta_packed
from pasta.collect.parquet_runs import Numbers, RunsFile

SIZES = [1, 2, 3, 32, 33, 34, 96, 97, 128, 129, 130, 161, 256, 257, 1000]


def written(path, numbers: np.ndarray) -> pl.Series:
    schema = pa.schema([pa.field("number", pa.from_numpy_dtype(numbers.dtype))])
    file = RunsFile(path, schema)
    file.write({"number": Numbers(numbers)}, len(numbers))
    file.close()
    by_arrow = pl.from_arrow(pq.read_table(path))["number"]
    assert pl.read_parquet(path)["number"].equals(by_arrow)
    return by_arrow


@pytest.mark.parametrize("kind", ["int64", "uint64", "int32", "uint32", "uint8"])
@settings(max_examples=40, deadline=None)
@given(data=st.data(), size=st.sampled_from(SIZES), seed=st.integers(0, 1 << 32))
def test_numbers_come_back_whatever_their_distances(tmp_path_factory, kind, data, size, seed):
    ends = np.iinfo(kind)
    bits = data.draw(st.integers(0, ends.bits))
    lowest = data.draw(st.integers(int(ends.min), int(ends.max)))
    room = min((1 << bits) - 1, int(ends.max) - lowest)
    rng = np.random.default_rng(seed)
    numbers = rng.integers(lowest, lowest + room, size, dtype=kind, endpoint=True)
    if data.draw(st.booleans()):
        numbers.sort()
    path = tmp_path_factory.mktemp("delta") / "file.parquet"
    assert written(path, numbers).equals(pl.Series(numbers))


def test_the_pages_are_delta_binary_packed(tmp_path):
    written(tmp_path / "file.parquet", np.arange(500))
    column = pq.ParquetFile(tmp_path / "file.parquet").metadata.row_group(0).column(0)
    assert set(column.encodings) == {"RLE", "DELTA_BINARY_PACKED"}


def test_each_difference_takes_as_many_bytes_as_the_widest():
    blocks = 100
    for width, widest in ((0, 0), (1, 255), (2, 256), (5, 1 << 39), (8, (1 << 62) - 1)):
        steps = np.zeros(128 * blocks, np.int64)
        steps[7] = widest
        packed = delta_packed(np.cumsum(np.concatenate([[0], steps])))
        assert 0 <= len(packed) - blocks * (128 * width + 5) <= 8


def test_the_last_block_has_no_more_parts_than_it_needs():
    numbers = np.arange(128) * 3 // 2  # differences of 1 and 2, of one byte each
    sizes = [len(delta_packed(numbers[: 1 + left])) for left in (2, 32, 33, 64, 97)]
    assert [size - sizes[0] for size in sizes] == [0, 0, 32, 32, 96]
