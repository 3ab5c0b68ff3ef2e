"""A trace on disk: opening what is none, reading what a dead writer left, sorting when finished."""

import json
import shutil

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta import trace_merge, trace_writer
from pasta.errors import TraceError
from pasta.schema import SCHEMA_VERSION, arrow_schema
from pasta.trace import Trace
from pasta.trace_writer import PartWriter, TraceWriter


def spans(times, first=0):
    return pa.table(
        {
            "ts": pa.array(times, pa.int64()),
            "name": [f"s{first + n}" for n in range(len(times))],
            "input_shapes": pa.array([["2x3"]] * len(times), pa.list_(pa.string())),
        }
    )


def write(path, *batches, finish=True, **tables):
    writer = TraceWriter(path, {"command": "x"})
    part = writer.part(file_seconds=None if finish else 3600)
    for batch in batches:
        part.append("span", batch)
    for table, rows in tables.items():
        part.append(table, rows)
    if finish:
        part.finish()
        writer.finish()
    return part


def test_a_finished_trace_is_sorted_throughout(tmp_path):
    write(tmp_path / "t", spans([5, 1, 9]), spans([2, 7], first=3))
    trace = Trace.open(tmp_path / "t")
    rows = trace.scan("span").collect()
    assert rows["ts"].to_list() == [1, 2, 5, 7, 9]
    assert rows["name"].to_list() == ["s1", "s3", "s0", "s4", "s2"]
    assert rows["input_shapes"].to_list() == [["2x3"]] * 5
    assert rows["dur"].null_count() == 5
    assert trace.tables() == ["span"]
    assert trace.rows("span") == 5
    assert trace.info["state"] == "complete"
    assert [file.name for file in (tmp_path / "t" / "span").iterdir()] == ["000000.parquet"]


def test_files_carry_the_schema_with_its_docs(tmp_path):
    write(tmp_path / "t", spans([1]))
    [file] = Trace.open(tmp_path / "t").files("span")
    schema = pq.read_schema(file)
    assert schema.equals(arrow_schema("span"), check_metadata=False)
    assert schema.field("ts").metadata[b"unit"] == b"ns"


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.lists(st.none() | st.integers(-50, 50), max_size=12), max_size=8), st.integers(1, 9)
)
def test_sorting_in_slices_is_a_stable_sort(tmp_path_factory, batches, slice_rows):
    folder = tmp_path_factory.mktemp("part")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_merge, "SLICE_ROWS", slice_rows)
        patch.setattr(trace_merge, "FILE_ROWS", 2 * slice_rows)
        patch.setattr(trace_writer, "FILE_ROWS", 3)
        patch.setattr(trace_writer, "BATCH_ROWS", 2)
        part = PartWriter(folder)
        rows, heights = [], []
        for times in batches:
            part.append("span", spans(times, first=len(rows)))
            rows += times

        def note(frame):
            heights.append(frame["ts"].to_list())
            return frame

        part.finish({"span": note})
    files = sorted((folder / "span").glob("*.parquet")) if rows else []
    found = [name for file in files for name in pq.read_table(file)["name"].to_pylist()]
    order = sorted(range(len(rows)), key=lambda n: (rows[n] is None, rows[n] or 0))
    assert found == [f"s{n}" for n in order]
    flat = [ts for height in heights for ts in height]
    assert flat == [rows[n] for n in order]
    assert part.rows.get("span", 0) == len(rows)


@pytest.mark.parametrize("without_time", [0, 9_000, 20_000])
def test_slices_are_bounded(tmp_path, monkeypatch, without_time):
    monkeypatch.setattr(trace_merge, "SLICE_ROWS", 1000)
    monkeypatch.setattr(trace_writer, "BATCH_ROWS", 500)
    monkeypatch.setattr(trace_merge, "_SAMPLE_ROWS", 4)
    part = PartWriter(tmp_path)
    known = np.random.default_rng(1).permutation(20_000).tolist()
    times = [None if time < without_time else time for time in known]
    for start in range(0, 20_000, 700):
        part.append("span", spans(times[start : start + 700]))
    heights = []
    part.finish({"span": lambda frame: heights.append(frame.height) or frame})
    assert sum(heights) == 20_000
    assert max(heights) <= 2000


def test_slices_of_rows_with_long_texts_are_smaller(tmp_path, monkeypatch):
    monkeypatch.setattr(trace_merge, "SLICE_BYTES", 100_000)
    monkeypatch.setattr(trace_writer, "BATCH_ROWS", 500)
    monkeypatch.setattr(trace_merge, "_SAMPLE_ROWS", 4)
    part = PartWriter(tmp_path)
    for start in range(0, 5000, 500):
        times = list(range(start, start + 500))
        part.append("span", spans(times).set_column(1, "name", pa.array(["n" * 1000] * 500)))
    sizes = []
    part.finish({"span": lambda frame: sizes.append(frame.estimated_size()) or frame})
    assert max(sizes) <= 200_000
    assert len(sizes) < 200


def test_a_transform_may_drop_rows_and_tables(tmp_path):
    part = PartWriter(tmp_path)
    part.append("span", spans([1, 2, 3]))
    part.append("kernel", pa.table({"ts": pa.array([1], pa.int64())}))
    part.finish({"span": lambda f: f.filter(pl.col("ts") > 1), "kernel": lambda f: f.clear()})
    assert part.rows == {"span": 2, "kernel": 0}
    assert [path.name for path in tmp_path.iterdir()] == ["span"]


def test_tables_without_a_time_keep_their_order(tmp_path):
    part = PartWriter(tmp_path)
    for depth in (3, 1, 2):
        part.append("frame", pa.table({"depth": pa.array([depth], pa.int32())}))
    part.finish()
    [file] = (tmp_path / "frame").iterdir()
    assert pq.read_table(file)["depth"].to_pylist() == [3, 1, 2]


def test_a_dead_writer_leaves_its_finished_files_readable(tmp_path, monkeypatch):
    monkeypatch.setattr(trace_writer, "FILE_ROWS", 3)
    monkeypatch.setattr(trace_writer, "ROW_GROUP_ROWS", 3)
    write(tmp_path / "t", spans([3, 1, 2]), spans([9, 8]), finish=False)
    trace = Trace.open(tmp_path / "t")
    assert trace.scan("span").collect()["ts"].to_list() == [1, 2, 3]
    assert trace.info["state"] == "recording"


def test_a_flushed_writer_leaves_every_row_readable(tmp_path):
    part = write(tmp_path / "t", spans([3, 1, 2]), finish=False)
    assert Trace.open(tmp_path / "t").tables() == []
    part.flush()
    assert Trace.open(tmp_path / "t").scan("span").collect()["ts"].to_list() == [1, 2, 3]
    part.append("span", spans([0]))
    part.finish()
    assert Trace.open(tmp_path / "t").scan("span").collect()["ts"].to_list() == [0, 1, 2, 3]


def test_a_part_adopts_the_files_of_another(tmp_path):
    first, second = PartWriter(tmp_path / "a"), PartWriter(tmp_path / "b")
    first.append("span", spans([5, 5]))
    second.append("span", spans([5, 1], first=2))
    second.append("call", pa.table({"ts": pa.array([7], pa.int64())}))
    second.flush()
    first.adopt(tmp_path / "b", second.rows)
    first.append("span", spans([5], first=4))
    first.finish()
    [file] = (tmp_path / "a" / "span").iterdir()
    assert pq.read_table(file)["name"].to_pylist() == ["s3", "s0", "s1", "s2", "s4"]
    assert first.rows == {"span": 5, "call": 1}


def test_ranks_are_read_together(tmp_path):
    writer = TraceWriter(tmp_path / "t", {})
    for rank in (1, 0):
        part = writer.part(rank)
        part.append(
            "span", spans([10 * rank + 1]).append_column("rank", pa.array([rank], pa.int32()))
        )
        part.finish()
    writer.finish()
    rows = Trace.open(tmp_path / "t").scan("span").collect()
    assert rows.select("rank", "ts").rows() == [(0, 1), (1, 11)]


def test_what_is_no_trace_is_one_clear_line(tmp_path):
    with pytest.raises(TraceError, match=r"absent: no such file or directory"):
        Trace.open(tmp_path / "absent")
    with pytest.raises(TraceError, match=r"not a pasta trace \(no trace\.json\)"):
        Trace.open(tmp_path)
    (tmp_path / "trace.json").write_text("[1")
    with pytest.raises(TraceError, match=r"trace\.json: damaged"):
        Trace.open(tmp_path)


def test_a_newer_schema_version_says_what_to_do(tmp_path):
    newer = SCHEMA_VERSION + 1
    (tmp_path / "trace.json").write_text(json.dumps({"schema_version": newer}))
    with pytest.raises(TraceError, match=f"version {newer} is newer .*; upgrade pasta"):
        Trace.open(tmp_path)


@pytest.mark.parametrize("keep", [0, 10, 300])
def test_a_truncated_file_is_named(tmp_path, keep):
    write(tmp_path / "t", spans([1, 2, 3]))
    file = tmp_path / "t" / "span" / "000000.parquet"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(TraceError, match=rf"000000\.parquet: cut short at byte {keep}"):
        Trace.open(tmp_path / "t").scan("span")


def test_unknown_tables_and_columns_are_errors(tmp_path):
    write(tmp_path / "t", spans([1]))
    trace = Trace.open(tmp_path / "t")
    with pytest.raises(TraceError, match=r"no table 'kernal'\. Did you mean 'kernel'\?"):
        trace.scan("kernal")
    with pytest.raises(TraceError, match="no table 'kernel'; this trace has span"):
        trace.scan("kernel")
    with pytest.raises(TraceError, match="has no column nonsense"):
        PartWriter(tmp_path / "p").append("span", pa.table({"nonsense": [1]}))


def test_a_folder_that_holds_something_is_refused(tmp_path):
    (tmp_path / "x").write_text("mine")
    with pytest.raises(TraceError, match="already exists and is not empty"):
        TraceWriter(tmp_path, {})
    with pytest.raises(TraceError, match="already exists and is not empty"):
        TraceWriter(tmp_path / "x", {})


def test_losses_are_summed_over_ranks(tmp_path):
    loss = pa.table(
        {
            "collector": ["a", "a", "b"],
            "reason": ["r", "r", "r"],
            "count": pa.array([1, 2, 9], pa.int64()),
            "first_ts": pa.array([8, None, 4], pa.int64()),
        }
    )
    write(tmp_path / "t", loss=loss)
    trace = Trace.open(tmp_path / "t")
    assert trace.losses().rows() == [("b", "r", 9, 4), ("a", "r", 3, 8)]
    assert trace.losses() is trace.losses()
    [file] = trace.files("loss")
    shutil.copy(file, file.with_stem(f"{file.stem}-again"))
    assert trace.losses().rows() == [("b", "r", 18, 4), ("a", "r", 6, 8)]
