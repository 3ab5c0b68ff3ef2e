from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.collect import warp_accesses
from pasta.collect.channel_ring import Producer
from pasta.collect.parquet_runs import RunsFile
from pasta.collect.warp_accesses import WARP, rows_in, warps_of, write_accesses
from tests.collect.warp_help import batch, records, rows

WHO = Producer(5, 1234, 1)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1 << 32),
    count=st.integers(1, 90),
    group=st.sampled_from([16, 1 << 16]),
    kind=st.sampled_from(["whole", "split", "idle"]),
)
def test_files_hold_what_records_stand_for(tmp_path_factory, seed, count, group, kind):
    made = records(seed, count, split=kind == "split")
    if kind == "idle":
        made["lanes"][::2] = 0
    path = tmp_path_factory.mktemp("warps") / "file.parquet"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warp_accesses, "_GROUP_WARPS", group)
        size = write_accesses(path, warps_of(batch(made)), WHO)
    want = rows(made, WHO.rank, WHO.pid)
    got = pl.read_parquet(path)
    assert got.equals(want)
    assert rows_in(made) == want.height
    assert size == path.stat().st_size


def test_a_row_group_holds_as_many_values_as_a_file_has_records(tmp_path):
    made = np.zeros(1 << 16, WARP)
    made["lanes"], made["request"] = 1, np.arange(len(made))
    made["block"] = np.random.default_rng(0).permutation(len(made))
    path = tmp_path / "file.parquet"
    write_accesses(path, made, WHO)
    got = pl.read_parquet(path, columns=["request", "block"])
    assert np.array_equal(got["request"].to_numpy(), made["request"])
    assert np.array_equal(got["block"].to_numpy(), made["block"])


def test_a_batch_may_be_part_of_another():
    made = records(1, 20)
    assert np.array_equal(warps_of(batch(made).slice(7, 5)), made[7:12])


def test_records_of_another_size_are_refused():
    short = pa.array([[1] * (WARP.itemsize // 8), [1, 2]], pa.list_(pa.int64()))
    with pytest.raises(ValueError, match="not 184 bytes"):
        warps_of(pa.RecordBatch.from_arrays([short], names=["record"]))
    absent = pa.array([None], pa.list_(pa.int64()))
    with pytest.raises(ValueError, match="without a record"):
        warps_of(pa.RecordBatch.from_arrays([absent], names=["record"]))
    with pytest.raises(ValueError, match="without a record"):
        warps_of(pa.RecordBatch.from_arrays([], names=[]))


def test_a_file_that_cannot_be_written_on_is_removed(tmp_path, monkeypatch):
    def refuse(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunsFile, "close", refuse)
    with pytest.raises(OSError, match="No space"):
        write_accesses(tmp_path / "file.parquet", records(2, 10), WHO)
    assert list(tmp_path.iterdir()) == []
