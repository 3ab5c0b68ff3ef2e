"""Tables that no importer knows, read by a map of their columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pasta.collect.importing import import_trace
from pasta.errors import PastaError
from pasta.trace import Trace

KERNELS = """table: kernel
unit: us
columns: {ts: start, dur: {end: stop}, name: what, device: gpu, correlation: id}
"""


def imported(tmp_path: Path, content: str | bytes, column_map: str, **options: Any) -> Trace:
    file = tmp_path / "data"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    (tmp_path / "map.yaml").write_text(column_map)
    out = tmp_path / "out"
    import_trace([file], out, column_map=tmp_path / "map.yaml", **options)
    return Trace.open(out)


def rows(trace: Trace, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return trace.scan(table).select(columns).collect().rows()


def losses(trace: Trace) -> dict[str, int]:
    return dict(trace.losses().select("reason", "count").iter_rows())


def test_five_lines_of_yaml_read_a_csv(tmp_path: Path) -> None:
    text = "what,start,stop,gpu,id\ngemm,10.5,12.001,1,7\nrelu,9,9.25,0,8\n"
    trace = imported(tmp_path, text, KERNELS)
    assert rows(trace, "kernel", "name", "ts", "dur", "device", "correlation") == [
        ("relu", 9000, 250, 0, 8),
        ("gemm", 10500, 1501, 1, 7),
    ]
    assert sorted(launch for (launch,) in rows(trace, "kernel", "launch_id")) == [1, 2]
    assert rows(trace, "process", "pid", "started", "ended") == [(0, 9000, 12001)]
    assert losses(trace) == {}


def test_units_constants_and_meanings(tmp_path: Path) -> None:
    column_map = """table: copy
columns:
  ts: {column: t, unit: s}
  dur: {column: d, unit: ms}
  kind: {column: way, values: {1: HtoD, 2: DtoH}}
  bytes: {column: size, unit: KiB}
  pid: {value: 42}
  device: {value: 3}
"""
    text = "t;d;way;size\n1672924881.000000001;0.5;1;1.5\n1672924882;1;9;2\n"
    trace = imported(tmp_path, text, column_map)
    assert rows(trace, "copy", "pid", "device", "ts", "dur", "kind", "bytes") == [
        (42, 3, 1672924881000000001, 500_000, "HtoD", 1536),
        (42, 3, 1672924882000000000, 1_000_000, "9", 2048),
    ]


@pytest.mark.parametrize("kind", ["parquet", "file", "stream"])
def test_columns_with_types_of_their_own(kind: str, tmp_path: Path) -> None:
    table = pa.table(
        {
            "start": pa.array([1_000_000, 2_000_000], pa.timestamp("us")),
            "took": pa.array([5, None], pa.duration("ms")),
            "name": pa.array(["a", "b"]).dictionary_encode(),
            "big": pa.array([1 << 63, 2], pa.uint64()),
        }
    )
    path = tmp_path / "x"
    if kind == "parquet":
        pq.write_table(table, path)
    else:
        new = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
        with new(str(path), table.schema) as writer:
            writer.write_table(table)
    column_map = "table: kernel\ncolumns: {ts: start, dur: took, name: name, correlation: big}\n"
    trace = imported(tmp_path, path.read_bytes(), column_map)
    assert rows(trace, "kernel", "ts", "dur", "name", "correlation") == [
        (10**9, 5_000_000, "a", 1 << 63),
        (2 * 10**9, None, "b", 2),
    ]


def test_spans_get_parents(tmp_path: Path) -> None:
    column_map = "table: span\ncolumns: {ts: t, dur: d, name: n, level: {value: function}}\n"
    trace = imported(tmp_path, "n\tt\td\nouter\t0\t10\ninner\t2\t3\n", column_map)
    spans = trace.scan("span").collect()
    outer, inner = spans.sort("ts").iter_rows(named=True)
    assert (outer["parent_id"], inner["parent_id"]) == (0, outer["span_id"])
    assert set(spans["level"]) == {"function"}


def test_a_table_without_times(tmp_path: Path) -> None:
    column_map = "table: access\ncolumns: {launch_id: l, address: a, bytes: b, op: {value: 0}}\n"
    trace = imported(tmp_path, "l,a,b\n1,140737488355328,4\n1,140737488355332,4\n", column_map)
    assert rows(trace, "access", "launch_id", "address", "bytes", "op") == [
        (1, 140737488355328, 4, 0),
        (1, 140737488355332, 4, 0),
    ]


@pytest.mark.parametrize(("table", "name"), [("kernel", "launch_id"), ("span", "span_id")])
def test_ids_that_repeat_in_a_process_are_told_apart(table: str, name: str, tmp_path: Path) -> None:
    content = b"t,id,p\n1,7,1\n2,7,1\n3,,1\n4,7,2\n5,1,1\n"
    column_map = f"table: {table}\ncolumns: {{ts: t, {name}: id, pid: p}}\n"
    trace = imported(tmp_path, content, column_map)
    own = [(1 << 61) + 1, (1 << 61) + 2]
    assert rows(trace, table, "ts", name) == [(1, 7), (2, own[0]), (3, 1), (4, 7), (5, own[1])]
    reason = f"{name} that another row of the process has: given one of its own"
    assert trace.losses().select("reason", "count").rows() == [(reason, 2)]


def test_what_cannot_be_read_is_counted(tmp_path: Path) -> None:
    text = "what,start,stop,gpu,id\na,x,2,0,1\nb,5,4,0,1\nc,,1,0,1\nd,1,2,zero,1\ne,3,1e99,0,1\n"
    trace = imported(tmp_path, text, KERNELS)
    assert rows(trace, "kernel", "name", "ts", "dur", "device") == [
        ("d", 1000, 1000, None),
        ("e", 3000, None, 0),
        ("b", 5000, None, 0),
    ]
    assert losses(trace) == {
        "ts is not a whole number that fits: read as unknown": 1,
        "dur is not a whole number that fits: read as unknown": 1,
        "device is not a whole number that fits: read as unknown": 1,
        "row without a time that can be read: left out": 2,
        "negative duration: read as unknown": 1,
    }


GOOD = "start,stop,what,gpu,id\n1,2,a,0,1\n"


@pytest.mark.parametrize(
    ("column_map", "message"),
    [
        (
            "table: kernle\ncolumns: {}\n",
            "table: no table 'kernle' to fill. Did you mean 'kernel'?",
        ),
        ("table: kernel\ncolumns: {name: what}\n", "columns: lacks 'ts'"),
        ("table: kernel\ncolumns: {ts: start, nmae: what}\n", "Did you mean 'name'?"),
        ("table: kernel\ncolumns: {ts: start, rank: gpu}\n", "no such column to fill"),
        ("table: kernel\ncolumns: {ts: begin}\n", "has no column 'begin'"),
        ("table: kernel\ncolumns: {ts: {column: start, unit: h}}\n", "unit 'h' does not fit"),
        ("table: kernel\ncolumns: {ts: start, name: {end: stop}}\n", "'end' is for 'dur' alone"),
        ("table: kernel\ncolumns: {ts: {}}\n", "wants one of 'column', 'end' and 'value'"),
        ("table: kernel\ncolumn: {ts: start}\n", "map.yaml: object"),
        ("table: kernel\ncolumns: [ts]\n", "columns: expected a mapping, got a list; a map is as"),
        ("table: loss\ncolumns: {reason: what}\n", "table: no table 'loss' to fill. Known: access"),
        (
            "table: kernel\nunit: h\ncolumns: {ts: start}\n",
            "unit: invalid enum value 'h'; a map is",
        ),
        (
            "table: kernel\ncolumns: {ts: start, device: {value: first}}\n",
            "columns.device: wants a number, not the text 'first'",
        ),
        ("table: span\ncolumns: {ts: start, input_shapes: what}\n", "holds lists"),
        ("table: kernel\ncolumns: {ts: {value: 0}}\n", "none of them is read from the file"),
        ("a: [", "not valid YAML"),
    ],
)
def test_a_map_that_does_not_fit_is_one_clear_line(
    column_map: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(PastaError) as error:
        imported(tmp_path, GOOD, column_map)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_map_for_what_has_no_columns_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(PastaError, match="is no CSV, Parquet or Arrow file"):
        imported(tmp_path, b"SQLite format 3\0", KERNELS)


def test_a_map_for_a_folder_or_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    column_map, folder = tmp_path / "map.yaml", tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(
        PastaError, match=r"map\.yaml: cannot be read \(No such file or directory\)"
    ):
        import_trace([folder], tmp_path / "out", column_map=column_map)
    column_map.write_text(KERNELS)
    with pytest.raises(PastaError, match="is no CSV, Parquet or Arrow file"):
        import_trace([folder], tmp_path / "out", column_map=column_map)


def test_a_cut_file_keeps_what_is_before_the_cut(tmp_path: Path) -> None:
    text = "what,start,stop,gpu,id\n" + "".join(f"k,{n},{n}.5,0,{n}\n" for n in range(1000))
    trace = imported(tmp_path, text[: len(text) * 9 // 10], KERNELS)
    kept = rows(trace, "kernel", "ts")
    assert 880 < len(kept) < 1000
    assert sum(losses(trace).values()) <= 1


def test_many_batches_are_one_table(tmp_path: Path) -> None:
    count = 200_000
    frame = pl.DataFrame({"start": range(count), "what": ["k"] * count})
    column_map = "table: kernel\ncolumns: {ts: start, name: what}\n"
    trace = imported(tmp_path, frame.write_csv(), column_map)
    found = trace.scan("kernel").select(pl.len(), pl.col("launch_id").n_unique()).collect().row(0)
    assert found == (count, count)


def arrow(names: list[str], *columns: pa.Array[Any]) -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch(list(columns), names=names)
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("kind", "value", "ns"),
    [
        (pa.timestamp("us"), 7, 7_000),
        (pa.timestamp("s", "UTC"), 7, 7 * 10**9),
        (pa.duration("ms"), 7, 7 * 10**6),
        (pa.time64("ns"), 7, 7),
        (pa.time32("ms"), 7, 7 * 10**6),
        (pa.date32(), 7, 7 * 86400 * 10**9),
        (pa.date64(), 7 * 86400 * 1000, 7 * 86400 * 10**9),
    ],
)
def test_times_of_every_type_are_nanoseconds(
    kind: pa.DataType, value: int, ns: int, tmp_path: Path
) -> None:
    bits = pa.int32() if kind.bit_width == 32 else pa.int64()
    content = arrow(["start"], pa.array([value], bits).cast(kind))
    trace = imported(tmp_path, content, "table: span\ncolumns: {ts: start}\n")
    assert rows(trace, "span", "ts") == [(ns,)]


def test_times_that_do_not_fit_are_unknown(tmp_path: Path) -> None:
    content = arrow(["start"], pa.array([1 << 61, 3], pa.int64()).cast(pa.timestamp("s")))
    trace = imported(tmp_path, content, "table: span\ncolumns: {ts: start}\n")
    assert rows(trace, "span", "ts") == [(3 * 10**9,)]
    assert losses(trace)["row without a time that can be read: left out"] == 1


def test_a_column_of_no_readable_type_is_unknown(tmp_path: Path) -> None:
    lists = pa.array([[1], [2]], pa.list_(pa.int64()))
    texts = pa.array([b"\xff", b"a"], pa.binary()).view(pa.string())
    content = arrow(["start", "size", "what"], pa.array([1, 2]), lists, texts)
    column_map = "table: metric\ncolumns: {ts: start, value: size}\n"
    trace = imported(tmp_path, content, column_map)
    assert rows(trace, "metric", "ts", "value") == [(1, None), (2, None)]
    assert sum(losses(trace).values()) == 2


def test_times_that_no_calendar_has_stand_for_nothing(tmp_path: Path) -> None:
    far = pa.array([1 << 60], pa.int64()).cast(pa.timestamp("s"))
    content = arrow(["start", "what"], pa.array([1]), far)
    column_map = "table: copy\ncolumns: {ts: start, kind: {column: what, values: {1: HtoD}}}\n"
    trace = imported(tmp_path, content, column_map)
    assert rows(trace, "copy", "ts", "kind") == [(1, None)]
    assert sum(losses(trace).values()) == 1


def test_of_columns_with_one_name_the_first_counts(tmp_path: Path) -> None:
    content = arrow(["start", "start"], pa.array([1, 2]), pa.array([3, 4]))
    trace = imported(tmp_path, content, "table: span\ncolumns: {ts: start}\n")
    assert rows(trace, "span", "ts") == [(1,), (2,)]


@pytest.mark.parametrize(
    "content", [b"a\rb,start\n1,2\n", b'"' + b"x" * 200_000 + b'",start\n1,2\n']
)
def test_first_lines_that_are_no_csv_are_one_clear_line(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(PastaError, match="its first line names no columns"):
        imported(tmp_path, content, KERNELS)


def test_processes_and_threads_that_are_no_numbers_are_0(tmp_path: Path) -> None:
    column_map = "table: span\ncolumns: {ts: start, pid: what, tid: gpu}\n"
    trace = imported(tmp_path, "start,what,gpu\n1,7,8\n2,x,9\n3,7,\n", column_map)
    assert rows(trace, "span", "ts", "pid", "tid") == [(1, 7, 8), (2, 0, 9), (3, 7, 0)]
    assert losses(trace) == {"pid is not a whole number that fits: read as unknown": 1}
