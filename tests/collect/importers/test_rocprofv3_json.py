"""rocprofv3's JSON: a recording of others, and small ones by hand."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import tarfile
from collections import Counter

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pasta.collect.importing import import_part, import_trace
from pasta.errors import InputError
from pasta.trace import Trace
from tests.collect.importers import rocm_help as rocm
from tests.collect.importers.import_help import losses
from tests.collect.importers.rocm_help import (
    CPU,
    GPU,
    OTHER_GPU,
    call,
    document,
    handle,
    kernel,
    process,
    record,
)

EVENTS = {
    "kernel_dispatch": [
        kernel(number, 2_000 + 10 * number, 2_005 + 10 * number, 7) for number in range(1, 6)
    ],
    "hip_api": [
        call(rocm.HIP, 0, 1_100, 1_200, 6, retval={"hipError_t_retval": 2}),
        call(rocm.HIP, 2, 1_500, 1_900, 7),
        call(rocm.COMPILER, 0, 1_450, 1_460, 5),
    ],
    "marker_api": [call(rocm.MARKER, 1, 1_050, 3_000, 41), call(rocm.MARKER, 0, 1_300, 1_300, 42)],
    "memory_copy": [],
}


@pytest.fixture
def imported(tmp_path):
    def run(content, *, strict=False, name="x.json"):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        out = tmp_path / f"t{len(list(tmp_path.iterdir()))}"
        report = import_trace([file], out, strict=strict)
        return report, Trace.open(out)

    return run


def rows(trace, table, *columns):
    if not trace.files(table):
        return []
    return trace.scan(table).select(columns).collect().rows()


def test_kernels_with_their_symbols_and_blocks(imported):
    report, trace = imported(document(process(kernel_dispatch=[kernel(4, 5_000, 5_900, 11)])))
    assert report.format == "rocprofv3 (JSON)"
    (row,) = trace.scan("kernel").collect().rows(named=True)
    expected = {
        "rank": 0, "pid": 77, "device": 1, "ts": 5_000, "dur": 900, "launch_id": 4,
        "correlation": 11, "external_id": 0, "graph_id": 0, "context": 0, "stream": 5,
        "name": "add(float*, int)", "grid_x": 2, "grid_y": 2, "grid_z": 1, "block_x": 64,
        "block_y": 2, "block_z": 1, "registers": 20, "static_shared": 64, "dynamic_shared": 0,
        "shared_bytes": None, "local_bytes": 16,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert losses(report) == {}


def test_a_process_that_ends_before_it_starts_has_no_end(imported):
    told = process(kernel_dispatch=[kernel(4, 5_000, 5_900, 11)])
    told["metadata"]["fini_time"] = 999
    report, trace = imported(document(told))
    assert rows(trace, "process", "started", "ended") == [(1_000, None)]
    ((_, reason, count, _),) = report.losses
    assert (reason, count) == ("process that ends before it starts: its end is unknown", 1)
    with pytest.raises(InputError, match="ends before it starts"):
        imported(document(told), strict=True)


def test_names_lds_and_streams_that_are_told_otherwise(imported):
    records = [
        kernel(1, 10, 20, 0, kernel_id=2, info={"group_segment_size": 96}),
        {**kernel(2, 30, 40, 0, kernel_id=9), "stream_id": {}},
    ]
    report, trace = imported(document(process(kernel_dispatch=records)))
    assert rows(
        trace, "kernel", "name", "static_shared", "dynamic_shared", "shared_bytes", "stream"
    ) == [
        ("mul(float*, int)", 0, 96, None, 5),
        ("kernel 9", None, None, 0, 3),
    ]
    assert losses(report) == {"kernel without a symbol: named by its number": 1}


def test_a_graph_is_one_call_with_many_kernels(imported):
    _, trace = imported(document(process(**EVENTS)))
    joined = trace.scan("call").join(trace.scan("kernel"), on=["rank", "pid", "correlation"])
    assert joined.collect()["name"].to_list() == ["hipGraphLaunch"] * 5


def test_calls_and_what_the_compiler_inserts(imported):
    report, trace = imported(document(process(**EVENTS)))
    assert rows(trace, "call", "ts", "dur", "tid", "correlation", "name", "result") == [
        (1_100, 100, 8, 6, "hipMalloc", 2),
        (1_500, 400, 8, 7, "hipGraphLaunch", None),
    ]
    assert rows(trace, "thread", "pid", "tid") == [(77, 8)]
    assert losses(report) == {
        "calls that the compiler puts around launches and into start-up: left out": 1
    }


def test_roctx_ranges_nest(imported):
    records = [*EVENTS["marker_api"], call(rocm.MARKER, 2, 3_000, 3_001, 43)]
    report, trace = imported(document(process(marker_api=records)))
    assert rows(trace, "span", "ts", "dur", "level", "name", "span_id", "parent_id") == [
        (1_050, 1_950, "annotation", "step é", 1, 0),
        (1_300, 0, "annotation", "mark", 2, 1),
    ]
    assert losses(report) == {"roctx call that is no range or mark: left out": 1}


def test_copies_by_the_kinds_of_their_ends(imported):
    ends = [(CPU, GPU), (GPU, CPU), (GPU, GPU), (GPU, OTHER_GPU), (CPU, CPU)]
    records = [
        record(100 + place, 200 + place, 3, kind=rocm.COPY, operation=1, thread_id=8,
               src_agent_id=handle(source), dst_agent_id=handle(destination), bytes=64,
               src_address="0x00007f0000001000", dst_address=handle(4096), stream_id=handle(2))
        for place, (source, destination) in enumerate(ends)
    ]  # fmt: skip
    _, trace = imported(document(process(memory_copy=records)))
    assert rows(trace, "copy", "kind", "device", "bytes", "stream", "correlation") == [
        ("HtoD", 1, 64, 2, 3),
        ("DtoH", 1, 64, 2, 3),
        ("DtoD", 1, 64, 2, 3),
        ("PtoP", 0, 64, 2, 3),
        ("HtoH", -1, 64, 2, 3),
    ]
    assert rows(trace, "copy", "source_address", "destination_address")[0] == (0x7F0000001000, 4096)


def test_an_address_that_is_used_again_is_another_object(imported):
    def event(operation, start, **more):
        return call(rocm.ALLOCATION, operation, start, start + 5, 1, address="0x10", **more)

    taken = {"agent_id": handle(GPU), "allocation_size": 100}
    records = [
        event(2, 10, agent_id=handle(0), allocation_size=0),
        event(1, 20, **taken),
        event(2, 30, agent_id=handle(0), allocation_size=0),
        event(1, 40, agent_id=handle(CPU), allocation_size=7),
    ]
    report, trace = imported(document(process(memory_allocation=records)))
    assert rows(trace, "memory", "ts", "event", "space", "device", "bytes", "object_id") == [
        (10, "release", "device", None, 0, 0),
        (25, "allocate", "device", 1, 100, 1),
        (30, "release", "device", 1, 100, 1),
        (45, "allocate", "pinned", -1, 7, 2),
    ]
    assert losses(report) == {
        "release of memory that was allocated before the recording: size unknown": 1
    }


def test_counters_are_summed_over_the_parts_of_a_device(imported):
    values = [{"counter_id": handle(9), "value": 1.5}, {"counter_id": handle(9), "value": 2.0}]
    counted = {
        "thread_id": 8,
        "dispatch_data": record(500, 700, 3, dispatch_info=rocm.launch(1, 12)),
        "records": [*values, {"counter_id": handle(8), "value": 4.0}],
        "stream_id": handle(5),
    }
    again = [kernel(12, 500, 700, 3), kernel(13, 800, 900, 4)]
    report, trace = imported(document(process(counter_collection=[counted], kernel_dispatch=again)))
    assert rows(trace, "kernel", "launch_id", "ts") == [(12, 500), (13, 800)]
    assert rows(trace, "metric", "launch_id", "device", "ts", "dur", "name", "value") == [
        (12, 1, 500, 200, "SQ_WAVES", 3.5),
        (12, 1, 500, 200, "counter 8", 4.0),
    ]
    assert losses(report) == {"counter that the file does not describe: named by its number": 1}


def test_communication_kernels_are_collectives(imported):
    records = [
        kernel(1, 10, 30, 5, kernel_id=3),
        kernel(2, 40, 60, 6, kernel_id=3),
        kernel(3, 1, 2, 4),
    ]
    _, trace = imported(document(process(kernel_dispatch=records)))
    columns = ("ts", "launch_id", "operation", "sequence", "sequence_source", "source")
    assert rows(trace, "collective", *columns) == [
        (10, 1, "allreduce", 0, "counted", "name"),
        (40, 2, "allreduce", 1, "counted", "name"),
    ]


def test_the_process_and_its_devices(imported):
    _, trace = imported(document(process(**EVENTS)))
    assert rows(trace, "process", "pid", "host", "command", "started", "ended") == [
        (77, "here", "./prog -v", 1_000, 99_000)
    ]
    columns = (
        "device",
        "vendor",
        "name",
        "compute_capability",
        "multiprocessors",
        "memory_bytes",
        "cache_bytes",
    )
    assert rows(trace, "device", *columns) == [
        (0, "amd", "AMD gfx942", "gfx942", 304, 1 << 37, 8 << 20),
        (1, "amd", "AMD gfx950", "gfx950", 304, 1 << 37, 8 << 20),
    ]
    assert rows(trace, "device", "uuid")[0] == ("000102030405060708090a0b0c0d0e0f",)


def test_processes_of_one_file_have_names_of_their_own(imported):
    first = process(pid=1, kernel_dispatch=[kernel(1, 10, 20, 1)])
    second = process(pid=2, kernel_dispatch=[kernel(1, 11, 20, 1)])
    second["kernel_symbols"][0]["formatted_kernel_name"] = "other"
    _, trace = imported(document(first, second))
    assert rows(trace, "kernel", "pid", "name") == [(1, "add(float*, int)"), (2, "other")]
    assert rows(trace, "process", "pid") == [(1,), (2,)]


@pytest.mark.parametrize("compressed", [False, True])
def test_descriptions_may_follow_the_records(imported, compressed):
    usual = process(counter_collection=[], **EVENTS)
    late = {key: usual[key] for key in ("buffer_records", *usual)}
    text = json.dumps(document(process(pid=5), late)).encode()
    _, expected = imported(document(process(pid=5), usual))
    report, trace = imported(gzip.compress(text) if compressed else text)
    for table in ("kernel", "call", "span", "device", "process"):
        assert trace.scan(table).collect().equals(expected.scan(table).collect()), table
    assert "kernel without a symbol: named by its number" not in losses(report)


def test_records_of_no_use_are_counted(imported):
    report, trace = imported(document(process(pc_sample_host_trap=[{"size": 1, "pc": 2}] * 3)))
    assert losses(report) == {"records of pc_sample_host_trap: left out": 3}
    assert rows(trace, "process", "pid") == [(77,)]


@pytest.mark.parametrize(
    ("change", "reason", "ts", "dur"),
    [
        ({"start_timestamp": 0}, "kernel without a time: left out", None, None),
        ({"end_timestamp": 0}, "kernel without an end: kept without a duration", 2_000, None),
        ({"end_timestamp": 5}, "kernel that ends before it starts: kept without a duration", 2_000, None),
        ({"start_timestamp": 1 << 62}, "kernel without a time: left out", None, None),
        ({"start_timestamp": "soon"}, "damaged record of kernel_dispatch: left out", None, None),
    ],
)  # fmt: skip
def test_times_that_cannot_be(imported, change, reason, ts, dur):
    damaged = document(process(kernel_dispatch=[{**kernel(1, 2_000, 2_900, 1), **change}]))
    report, trace = imported(damaged)
    assert losses(report) == {reason: 1}
    assert rows(trace, "kernel", "ts", "dur") == ([] if ts is None else [(ts, dur)])
    with pytest.raises(InputError, match=reason.split(":")[0]):
        imported(damaged, strict=True)


def test_an_agent_that_is_not_described_is_a_device(imported):
    unknown = kernel(1, 10, 20, 1, info={"agent_id": handle(999)})
    report, trace = imported(document(process(kernel_dispatch=[unknown, kernel(2, 30, 40, 2)])))
    assert rows(trace, "kernel", "device") == [(2,), (1,)]
    assert losses(report) == {"agent that the file does not describe: given a device of its own": 1}


def test_operations_without_a_name(imported):
    report, trace = imported(document(process(hip_api=[call(rocm.HIP, 99, 10, 20)])))
    assert rows(trace, "call", "name") == [("operation 99 of kind 1",)]
    assert losses(report) == {"operation that the file does not name: named by its number": 1}


def test_numbers_beyond_their_columns(imported):
    huge = kernel(1, 10, 20, 1 << 70, info={"group_segment_size": 1 << 40})
    report, trace = imported(document(process(kernel_dispatch=[huge])))
    ((correlation, shared),) = rows(trace, "kernel", "correlation", "shared_bytes")
    assert 0 < correlation < 1 << 63
    assert shared is None
    assert losses(report) == {
        "internal that is text or too large: renumbered": 1,
        "group_segment_size is not a whole number that fits: read as null": 1,
    }


def test_a_file_without_a_process(imported):
    with pytest.raises(InputError, match="without a process"):
        imported(b'{"rocprofiler-sdk-tool": []}')


def test_a_file_in_an_archive(tmp_path):
    late = process(**EVENTS)
    late = {key: late[key] for key in ("buffer_records", *late)}
    (tmp_path / "x.json").write_text(json.dumps(document(late)))
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.add(tmp_path / "x.json", "x.json")
    report = import_trace([tmp_path / "x.tar"], tmp_path / "t")
    assert report.rows["kernel"] == 5


def test_the_wrapper_of_rocprofv3_can_use_it(tmp_path):
    file = tmp_path / "908_results.json"
    file.write_text(json.dumps(document(process(**EVENTS))))
    part = import_part(file, tmp_path / "part", rank=3)
    assert part is not None
    kernels = pl.read_parquet(tmp_path / "part" / "kernel" / "*.parquet", hive_partitioning=False)
    assert kernels["rank"].to_list() == [3] * 5


@pytest.fixture(scope="module")
def sample(samples):
    file = samples / "rocprofv3" / "tracelens_908_results.json.gz"
    (tool,) = json.loads(gzip.decompress(file.read_bytes()))["rocprofiler-sdk-tool"]
    return file, tool


def test_the_sample(sample, tmp_path):
    file, tool = sample
    report = import_trace([file], tmp_path / "t", strict=True)
    trace = Trace.open(tmp_path / "t")
    records = tool["buffer_records"]["kernel_dispatch"]
    assert report.rows == {"process": 1, "device": 8, "kernel": 43_915, "collective": 1_310}
    kernels = trace.scan("kernel").collect()
    assert kernels["dur"].sum() == sum(r["end_timestamp"] - r["start_timestamp"] for r in records)
    assert kernels["ts"].is_sorted()
    assert kernels["launch_id"].n_unique() == len(records)
    assert set(kernels["device"]) == {0}
    names = {s["kernel_id"]: s["formatted_kernel_name"] for s in tool["kernel_symbols"]}
    expected = Counter(names[r["dispatch_info"]["kernel_id"]] for r in records)
    assert dict(kernels["name"].value_counts().iter_rows()) == expected
    streams = Counter(r["stream_id"]["handle"] for r in records)
    assert dict(kernels["stream"].value_counts().iter_rows()) == streams
    workgroups = sum(
        r["dispatch_info"]["grid_size"]["x"] // r["dispatch_info"]["workgroup_size"]["x"]
        for r in records
    )
    assert kernels["grid_x"].sum() == workgroups
    assert rows(trace, "process", "pid", "host") == [(908, "smci350-zts-gtu-c6-25")]
    assert rows(trace, "device", "name")[0] == ("AMD Instinct MI350X",)


def test_the_sample_cut_at_nine_tenths(sample, tmp_path):
    file, _ = sample
    text = gzip.decompress(file.read_bytes())
    at = len(text) * 9 // 10
    whole = text[:at].rfind(b"},{")
    (tmp_path / "cut.json").write_bytes(text[:at])
    report = import_trace([tmp_path / "cut.json"], tmp_path / "t")
    started = text.index(b'"kernel_dispatch":[')
    assert report.rows["kernel"] == text[started : whole + 1].count(b'"dispatch_info"')
    ((_, reason, _, _),) = report.losses
    assert re.fullmatch(rf"the file ends early: cut at byte {at}, \d{{5}} records kept", reason)
    assert report.rows["device"] == 8
    with pytest.raises(InputError, match="cut at byte"):
        import_trace([tmp_path / "cut.json"], tmp_path / "s", strict=True)


SMALL = json.dumps(document(process(**EVENTS)), separators=(",", ":")).encode()


@given(
    put=st.binary(max_size=30)
    | st.sampled_from([b"]", b"}", b"null", b"-1", b'"', b"1e400", b"{}"]),
    at=st.integers(0, len(SMALL)),
    drop=st.integers(0, 300),
    cut=st.none() | st.integers(0, len(SMALL)),
)
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_damage_gives_rows_or_one_error(tmp_path_factory, put, at, drop, cut):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "x.json").write_bytes((SMALL[:at] + put + SMALL[at + drop :])[:cut] or b" ")
    _import_or_refuse(folder / "x.json", folder / "t")


def _import_or_refuse(file, out):
    with contextlib.suppress(InputError):
        import_trace([file], out)


PLACES = [
    ("metadata",), ("metadata", "pid"), ("metadata", "node"), ("metadata", "command"), ("agents",),
    ("agents", 1, "uuid"), ("agents", 1, "id"), ("strings",), ("strings", "buffer_records"),
    ("strings", "buffer_records", 1, "operations"), ("strings", "marker_api", 0),
    ("kernel_symbols",), ("kernel_symbols", 0, "kernel_id"), ("buffer_records",),
    ("buffer_records", "kernel_dispatch"), ("buffer_records", "kernel_dispatch", 0),
    ("buffer_records", "kernel_dispatch", 0, "dispatch_info"), ("counters",),
    ("buffer_records", "hip_api", 0, "kind"), ("buffer_records", "hip_api", 0, "retval"),
    ("buffer_records", "hip_api", 0, "thread_id"), ("callback_records",),
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
@pytest.mark.parametrize("value", [None, 1 << 80, "text", [None], {"a": {}}])
def test_values_of_another_type_give_rows_or_one_error(tmp_path, place, value):
    changed = json.loads(SMALL)
    inner = changed["rocprofiler-sdk-tool"][0]
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    (tmp_path / "x.json").write_text(json.dumps(changed))
    _import_or_refuse(tmp_path / "x.json", tmp_path / "t")


def test_processes_of_one_pid_are_one(imported):
    first = process(kernel_dispatch=[kernel(1, 2_000, 2_100, 7)])
    report, trace = imported(document(first, process(77), process(78)))
    assert rows(trace, "process", "pid") == [(77,), (78,)]
    assert losses(report) == {
        "process with the pid of one before it: taken as the same, described by the first": 1
    }
