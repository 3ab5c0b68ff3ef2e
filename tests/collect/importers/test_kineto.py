"""Kineto events to rows, on small traces whose answers are worked out by hand."""

import gzip
import json

import polars as pl
import pytest

from pasta.collect.importers.kineto import Kineto
from pasta.collect.importers.kineto.halves import Half
from pasta.collect.importers.kineto.reading import Reading
from pasta.collect.importing import import_trace
from pasta.errors import InputError
from pasta.trace import Trace

PID = 4242


def complete(cat, name, ts, dur, *, tid=PID, pid=PID, **args):
    event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur}
    return event | ({"args": args} if args else {})


OPERATOR = complete("cpu_op", "aten::mm", 100, 50, **{"External id": 23})


@pytest.fixture
def imported(tmp_path):
    def run(events, *, text=None, strict=False, **metadata):
        file = tmp_path / "trace.json"
        file.write_text(text or json.dumps({**metadata, "traceEvents": events}))
        out = tmp_path / ("strict" if strict else "out")
        report = import_trace([file], out, strict=strict)
        trace = Trace.open(out)
        return trace, {reason: count for _, reason, count, _ in report.losses}

    return run


def rows(trace, table, *columns):
    frame = trace.scan(table).collect()
    return frame.select(columns or frame.columns).rows(named=not columns)


def test_a_launch_its_kernel_and_its_operator(imported):
    trace, losses = imported(
        [
            OPERATOR,
            complete(
                "cuda_runtime", "cudaLaunchKernel", 110, 5, correlation=7, **{"External id": 23}
            ),
            complete(
                "kernel",
                "gemm",
                120.5,
                2.25,
                tid=20,
                pid=1,
                correlation=7,
                device=1,
                context=3,
                stream=20,
                grid=[8, 16, 5],
                block=[128, 2, 1],
                **{
                    "External id": 23,
                    "registers per thread": 122,
                    "shared memory": 12544,
                },
            ),
        ]
    )
    assert losses == {}
    [call] = rows(trace, "call")
    assert (call["ts"], call["dur"], call["tid"], call["pid"]) == (110_000, 5_000, PID, PID)
    assert (call["correlation"], call["external_id"], call["rank"]) == (7, 23, 0)
    [kernel] = rows(trace, "kernel")
    assert (kernel["ts"], kernel["dur"]) == (120_500, 2_250)
    assert (kernel["device"], kernel["context"], kernel["stream"], kernel["pid"]) == (1, 3, 20, PID)
    assert [kernel[f"grid_{axis}"] for axis in "xyz"] == [8, 16, 5]
    assert [kernel[f"block_{axis}"] for axis in "xyz"] == [128, 2, 1]
    assert (kernel["registers"], kernel["shared_bytes"], kernel["launch_id"]) == (122, 12544, 1)
    [span] = rows(trace, "span")
    assert (span["level"], span["external_id"], span["span_id"]) == ("operator", 23, 1)


def test_an_external_id_that_repeats_the_correlation_is_unknown(imported):
    trace, losses = imported(
        [
            complete("cuda_runtime", "cudaLaunchKernel", 1, 1, correlation=7, **{"External id": 7}),
            complete("kernel", "k", 2, 1, pid=0, correlation=7, **{"External id": 8}),
        ]
    )
    assert rows(trace, "call", "correlation", "external_id") == [(7, 0)]
    assert rows(trace, "kernel", "correlation", "external_id") == [(7, 8)]
    assert losses == {"External id that repeats the correlation: read as unknown": 1}


def test_levels_of_spans_and_their_parents(imported):
    trace, _ = imported(
        [
            complete("user_annotation", "ProfilerStep#12", 10, 1000),
            complete("python_function", "train.py(3): step", 11, 900, tid=0, pid=0),
            complete("python_function", "nn.Module: Linear_0", 12, 100, tid=0, pid=0),
            complete("user_annotation", "Optimizer.step#SGD.step", 500, 100),
            complete("user_annotation", "mine", 501, 50),
            complete("cpu_op", "aten::add_", 502, 10),
        ]
    )
    found = rows(trace, "span", "name", "level", "span_id", "parent_id")
    assert found == [
        ("ProfilerStep#12", "step", 1, 0),
        ("train.py(3): step", "function", 2, 0),
        ("nn.Module: Linear_0", "module", 3, 2),
        ("Optimizer.step#SGD.step", "phase", 4, 1),
        ("mine", "annotation", 5, 4),
        ("aten::add_", "operator", 6, 5),
    ]


def test_copies_of_all_dialects(imported):
    trace, _ = imported(
        [
            complete("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 1, 1, pid=0, bytes=64),
            complete("Memcpy", "Memcpy DtoD (Device -> Device)", 2, 1, pid=0, bytes=4),
            complete("gpu_memset", "Memset (Device)", 3, 1, pid=0, bytes=128),
            complete("gpu_memcpy", "CopyDeviceToHost", 4, 1, pid=0, bytes="16"),
            complete(
                "mtia_ccp_events", "dma_request", 5, 1, pid=17, size=9, direction="HOST_TO_DEVICE"
            ),
        ]
    )
    assert rows(trace, "copy", "kind", "source", "destination", "bytes") == [
        ("HtoD", "pageable", "device", 64),
        ("DtoD", "device", "device", 4),
        ("memset", "", "device", 128),
        ("DtoH", "", "", 16),
        ("HtoD", "", "", 9),
    ]


def test_synchronisations_keep_what_waits_for_what(imported):
    trace, _ = imported(
        [
            complete(
                "cuda_sync",
                "Stream Wait Event",
                5,
                1,
                pid=0,
                tid=20,
                stream=20,
                correlation=9,
                device=0,
                context=1,
                cuda_sync_kind="Stream Wait Event",
                wait_on_stream=7,
                wait_on_cuda_event_record_corr_id=4,
                wait_on_cuda_event_id=3,
            ),
            complete(
                "cuda_sync",
                "Context Sync",
                6,
                1,
                pid=0,
                tid=-1,
                stream=-1,
                correlation=10,
                device=0,
                context=1,
                cuda_sync_kind="Context Sync",
                wait_on_stream=-1,
                wait_on_cuda_event_record_corr_id=-1,
                wait_on_cuda_event_id=-1,
            ),
        ]
    )
    columns = ("kind", "stream", "event_id", "waited_stream", "waited_correlation")
    assert rows(trace, "sync", *columns) == [
        ("Stream Wait Event", 20, 3, 7, 4),
        ("Context Sync", None, 0, None, 0),
    ]


def instant(ts, **args):
    base = {"ph": "i", "s": "t", "name": "[memory]", "pid": PID, "tid": PID, "ts": ts}
    return base | {"args": args}


def test_memory_instants_become_allocations_and_releases(imported):
    trace, losses = imported(
        [
            instant(
                1,
                **{
                    "Device Type": 1,
                    "Device Id": 2,
                    "Addr": 2**63 + 1,
                    "Bytes": 512,
                    "Total Allocated": 512,
                    "Total Reserved": 1024,
                },
            ),
            instant(2, **{"Device Type": 0, "Device Id": -1, "Bytes": -4}),
            {"ph": "i", "name": "Record Window End", "ts": 3, "s": "g", "pid": "", "tid": ""},
        ]
    )
    columns = ("event", "space", "device", "address", "bytes", "total_allocated", "total_reserved")
    assert rows(trace, "memory", *columns) == [
        ("allocate", "tensor", 2, 2**63 + 1, 512, 512, 1024),
        ("release", "tensor", -1, None, 4, None, None),
    ]
    assert losses == {"instant event (marks of the recording and others): left out": 1}


def test_what_lies_outside_of_the_recorded_window_is_counted(imported):
    marks = [("Record Window End", 50), ("Iteration Start: PyTorch Profiler", 10)]
    kernels = [(1, 8), (2, 8), (3, 7), (9, 2), (49, 5), (50, 0), (60, None)]
    trace, losses = imported(
        [
            *({"ph": "i", "name": name, "ts": ts, "s": "g"} for name, ts in marks),
            *(complete("kernel", "k", ts, dur, pid=0, tid=7) for ts, dur in kernels),
            complete("cpu_op", "aten::add", 1, 2),
            complete("cuda_sync", "Stream Sync", 60, 1, pid=0, tid=7),
        ]
    )
    assert len(rows(trace, "kernel", "ts")) == len(kernels)
    window = "window that the profiler recorded: kept"
    assert {reason: count for reason, count in losses.items() if window in reason} == {
        f"kernel before the {window}": 3,
        f"kernel after the {window}": 2,
        f"range before the {window}": 1,
        f"synchronisation after the {window}": 1,
    }


def test_the_dialect_of_2021(imported):
    stack = "torch/nn.py(10): forward;train.py(7): <module>"
    trace, _ = imported(
        [
            complete("Operator", "aten::add", 1, 5, tid="5555", pid=5555, **{
                "External id": 3, "Call stack": stack, "Input Dims": [[2, 3], [], [[4], [5, 6]]],
                "Input type": ["float", "Int", "TensorList"]}),
            complete("Operator", "aten::mul", 9, 5, tid="5555", pid=5555, **{"Call stack": stack}),
            complete("Runtime", "cudaLaunchKernel", 2, 1, tid="5555", pid=5555, correlation=8,
                     **{"external id": 3}),
            complete("Kernel", "k", 4, 1, tid="stream 7", pid=0, correlation=8,
                     **{"external id": 3}),
            complete("Operator", "odd", 20, 5, tid="main thread", pid=5555),
            complete("Operator", "ProfilerStep#3", 1, 30, tid="5555", pid=5555),
            complete("Operator", "Optimizer.step#SGD.step", 15, 4, tid="5555", pid=5555),
        ]
    )  # fmt: skip
    ranges = dict(rows(trace, "span", "name", "level"))
    assert (ranges["ProfilerStep#3"], ranges["Optimizer.step#SGD.step"]) == ("step", "phase")
    spans = [span for span in rows(trace, "span") if span["level"] == "operator"]
    assert [span["tid"] for span in spans[:2]] == [5555, 5555]
    assert spans[0]["input_shapes"] == ["2x3", "", "4;5x6"]
    assert spans[0]["input_types"] == ["float", "Int", "TensorList"]
    assert spans[1]["input_shapes"] is None
    assert spans[0]["stack_id"] == spans[1]["stack_id"] != 0
    frames = rows(trace, "frame", "stack_id", "depth", "function", "file", "line", "language")
    assert frames == [
        (spans[0]["stack_id"], 0, "<module>", "train.py", 7, "python"),
        (spans[0]["stack_id"], 1, "forward", "torch/nn.py", 10, "python"),
    ]
    assert rows(trace, "call", "external_id", "tid") == [(3, 5555)]
    assert rows(trace, "kernel", "external_id", "device", "stream") == [(3, 0, 7)]
    names = dict(rows(trace, "thread", "tid", "name"))
    assert names[spans[2]["tid"]] == "main thread"


COMMUNICATION = {
    "Collective name": "_allgather_base", "In msg nelems": 100, "Out msg nelems": 800,
    "dtype": "BFloat16", "Process Group Name": "3", "Process Group Ranks": "[0, 1, 2]",
}  # fmt: skip


def test_collectives_from_arguments_and_from_names(imported):
    trace, _ = imported(
        [
            complete("cpu_op", "record_param_comms", 1, 5, **COMMUNICATION),
            complete("kernel", "ncclDevKernel_AllGather_RING_LL(args)", 10, 5, pid=0, stream=9,
                     correlation=3, **COMMUNICATION),
            complete("kernel", "ncclDevKernel_AllGather_RING_LL(args)", 20, 5, pid=0, stream=9,
                     **COMMUNICATION),
            complete("kernel", "ncclKernel_AllReduce_RING_LL_Sum_float(args)", 30, 5, pid=0, stream=8),
            complete("kernel", "ncclDevKernel_Generic(args)", 40, 5, pid=0, stream=8),
            complete("kernel", "gemm", 50, 5, pid=0, stream=8),
        ]
    )  # fmt: skip
    columns = ("launch_id", "communicator", "sequence", "sequence_source", "operation", "source")
    assert rows(trace, "collective", *columns) == [
        (1, "3", 0, "counted", "allgather", "arguments"),
        (2, "3", 1, "counted", "allgather", "arguments"),
        (3, "", 0, "counted", "allreduce", "name"),
        (4, "", 1, "counted", "", "name"),
    ]
    sizes = rows(trace, "collective", "bytes_in", "bytes_out", "dtype", "members")
    assert sizes[1] == (200, 1600, "BFloat16", [0, 1, 2])
    assert sizes[2] == (None, None, "", None)
    assert trace.rows("kernel") == 5


def test_sizes_that_are_negative_are_unknown(imported):
    trace, losses = imported(
        [
            complete("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 1, 1, device=0, bytes=-5),
            complete("cuda_runtime", "cudaMemcpy", 1, 1, bytes=-9),
            {**OPERATOR, "ph": "i", "cat": "cpu_instant_event", "name": "[memory]",
             "args": {"Bytes": -(1 << 63), "Total Allocated": -1, "Total Reserved": 7}},
        ]
    )  # fmt: skip
    assert rows(trace, "copy", "bytes") == rows(trace, "call", "bytes") == [(None,)]
    totals = rows(trace, "memory", "event", "bytes", "total_allocated", "total_reserved")
    assert totals == [("release", (1 << 63) - 1, None, 7)]
    assert losses == {"negative size: read as unknown": 3}


@pytest.mark.parametrize("members", ["[0, 36893488147419103232]", "[0, 1, ..., 7]", "[" * 2000])
def test_members_that_are_no_whole_list_of_ranks_are_counted(imported, members):
    told = COMMUNICATION | {"Process Group Ranks": members}
    kernels = [complete("kernel", "ncclDevKernel_Generic", at, 5, **told) for at in (10, 20)]
    trace, losses = imported(kernels)
    assert rows(trace, "collective", "members") == [(None,), (None,)]
    assert losses == {"Process Group Ranks that is no whole list: read as null": 2}


def test_shapes_nested_deeper_than_can_be_read_are_counted(imported):
    shapes = json.loads("[" * 700 + "]" * 700)
    trace, losses = imported([OPERATOR | {"args": {"Input Dims": shapes}}, OPERATOR])
    assert rows(trace, "span", "name", "input_shapes") == [("aten::mm", None)] * 2
    assert losses == {"Input Dims that is no whole list: read as null": 1}


def test_a_line_number_that_nobody_can_mean_is_text(imported):
    stack = f"a.py({'9' * 5000}): f;b.py(99999999999): g"
    trace, losses = imported([OPERATOR | {"args": {"Call stack": stack}}])
    assert rows(trace, "frame", "file", "line") == [("b.py", (1 << 31) - 1), ("", 0)]
    assert losses == {}


def test_collectives_of_a_trace_without_a_device(imported):
    recorded = COMMUNICATION | {"Collective name": "send", "Dst Rank": 2, "Seq": 17}
    waiting = COMMUNICATION | {"Collective name": "wait"}
    trace, _ = imported(
        [
            complete("cpu_op", "record_param_comms", 1, 5, **recorded),
            complete("cpu_op", "record_param_comms", 7, 5, **waiting),
        ]
    )
    [row] = rows(trace, "collective")
    assert (row["device"], row["operation"], row["peer"], row["launch_id"]) == (-1, "send", 2, 0)
    assert (row["sequence"], row["sequence_source"], row["ts"]) == (17, "recorded", 1000)


@pytest.mark.parametrize("order", ["before", "after"])
def test_the_time_base_counts_wherever_it_stands(imported, order):
    base, events = (
        '"baseTimeNanoseconds": 1751410836000000001',
        f'"traceEvents": [{json.dumps(OPERATOR)}]',
    )
    pair = [base, events] if order == "before" else [events, base]
    trace, _ = imported(None, text="{" + ", ".join(pair) + ', "displayTimeUnit": "ns"}')
    assert rows(trace, "span", "ts", "dur") == [(1751410836000100001, 50_000)]
    assert rows(trace, "process", "started", "ended") == [
        (1751410836000100001, 1751410836000150001)
    ]


def test_nanoseconds_beyond_what_a_float_holds(imported):
    event = json.dumps(OPERATOR).replace('"ts": 100', '"ts": 1672924881307000.123')
    trace, _ = imported(None, text=f'{{"traceEvents": [{event}]}}')
    assert rows(trace, "span", "ts") == [(1672924881307000123,)]


@pytest.mark.parametrize(
    ("damage", "dur", "reason"),
    [
        ({"dur": None}, None, "event without a duration: kept as unfinished"),
        ({"dur": -3}, None, "event with a negative duration: kept as unfinished"),
        ({"dur": 0}, 0, None),
    ],
)
def test_durations_that_are_none(imported, damage, dur, reason):
    trace, losses = imported([OPERATOR | damage])
    assert rows(trace, "span", "dur") == [(dur,)]
    assert losses == ({reason: 1} if reason else {})


@pytest.mark.parametrize("ts", [0, None, "x", -5])
def test_an_event_without_a_start_is_left_out(imported, ts):
    trace, losses = imported([OPERATOR, OPERATOR | {"ts": ts}])
    assert rows(trace, "span", "ts") == [(100_000,)]
    assert losses == {"event without a start time (0, missing or no number): left out": 1}
    with pytest.raises(InputError, match="at event 'aten::mm'"):
        imported([OPERATOR | {"ts": ts}], strict=True)


def test_large_integers_fit_or_get_a_number_of_their_own(imported):
    trace, losses = imported(
        [
            complete("cuda_runtime", "a", 1, 1, correlation=2**64 - 1, **{"Comms Id": 2**200}),
            complete("cuda_runtime", "b", 2, 1, correlation=2**64),
            complete("kernel", "k", 3, 1, pid=0, correlation=2**64, grid=[2**40, 1, 1]),
            complete("cuda_runtime", "c", 4, 1, correlation=-1),
        ]
    )
    first, second, third = [row["correlation"] for row in rows(trace, "call")]
    [kernel] = rows(trace, "kernel")
    assert (first, third) == (2**64 - 1, 0)
    assert second == kernel["correlation"] != 0
    assert (kernel["grid_x"], kernel["grid_y"]) == (None, 1)
    assert losses == {
        "correlation that is text or too large: renumbered": 1,
        "grid is not a whole number that fits: read as null": 1,
    }


def test_begins_and_ends_are_paired_per_thread(imported):
    begin = {"ph": "B", "cat": "cpu_op", "pid": PID, "tid": 1}
    end = {"ph": "E", "pid": PID, "tid": 1}
    trace, losses = imported(
        [
            begin | {"name": "outer", "ts": 1.5},
            begin | {"name": "inner", "ts": 2},
            end | {"ts": 3.25},
            begin | {"name": "other thread", "ts": 3, "tid": 2},
            end | {"ts": 10},
            end | {"ts": 11},
        ]
    )
    assert rows(trace, "span", "name", "ts", "dur") == [
        ("outer", 1_500, 8_500),
        ("inner", 2_000, 1_250),
    ]
    assert losses == {
        "begin that never ended: left out": 1,
        "end that never began: left out": 1,
    }


def test_what_has_no_table_is_counted(imported):
    _, losses = imported(
        [
            OPERATOR,
            complete("gpu_user_annotation", "x", 1, 1),
            complete("new_thing", "x", 1, 1),
            {"ph": "C", "cat": "counter", "name": "x", "ts": 1},
            {"ph": "s", "cat": "ac2g", "id": 1, "ts": 1},
        ]
    )
    assert losses == {
        "event of category 'gpu_user_annotation' (the profiler derives them from host ranges):"
        " left out": 1,
        "event of category 'new_thing' (no table holds them): left out": 1,
        "event of phase 'C', category 'counter': left out": 1,
    }


def test_a_child_that_outlasts_its_parent_is_kept_and_counted(imported):
    trace, losses = imported(
        [
            complete("cpu_op", "outer", 1, 1000),
            complete("cpu_op", "parent", 10, 100),
            complete("cpu_op", "slightly", 90, 20.4),
            complete("cpu_op", "far", 100, 50),
        ]
    )
    assert rows(trace, "span", "name", "parent_id") == [
        ("outer", 0), ("parent", 1), ("slightly", 2), ("far", 1)
    ]  # fmt: skip
    assert losses == {
        "span that ends less than 1 us after the one that encloses it: kept inside": 1,
        "span that outlasts the one it starts in: given the next outer parent": 1,
    }


def test_an_unfinished_span_encloses_nothing(imported):
    trace, _ = imported(
        [
            complete("cpu_op", "outer", 1, 100),
            complete("cpu_op", "unfinished", 10, None),
            complete("cpu_op", "child", 20, 5),
            complete("cpu_op", "later", 200, 5),
        ]
    )
    assert rows(trace, "span", "name", "parent_id") == [
        ("outer", 0), ("unfinished", 1), ("child", 1), ("later", 0)
    ]  # fmt: skip


def test_process_threads_and_devices(imported):
    meta = {"ph": "M", "pid": PID, "tid": 0, "ts": 0}
    trace, _ = imported(
        [
            OPERATOR,
            complete("kernel", "k", 200, 1, pid=2, device=2, stream=0),
            meta | {"name": "process_name", "args": {"name": "python3"}},
            meta | {"name": "process_labels", "args": {"labels": "CPU"}},
            meta | {"name": "thread_name", "tid": PID, "args": {"name": "thread 1 (python3)"}},
        ],
        deviceProperties=[
            {"id": 0, "name": "AMD Instinct MI300X", "totalGlobalMem": 2**37, "computeMajor": 9,
             "computeMinor": 4, "numSms": 304}
        ],
        hip_runtime_version=60443483,
        distributedInfo={"rank": 3, "world_size": 8, "nccl_version": "2.20"},
        host_name="node7",
    )  # fmt: skip
    [process] = rows(trace, "process")
    assert (process["rank"], process["pid"], process["world_size"]) == (3, PID, 8)
    assert (process["host"], process["command"]) == ("node7", "python3")
    assert process["framework"] == "HIP runtime 60443483; NCCL 2.20"
    assert rows(trace, "thread", "tid", "name") == [(PID, "thread 1 (python3)")]
    columns = ("device", "vendor", "memory_bytes", "multiprocessors", "compute_capability")
    assert rows(trace, "device", *columns) == [(2, "amd", 2**37, 304, "9.4")]


def test_host_rows_of_other_pids_belong_to_the_process(imported):
    trace, losses = imported(
        [OPERATOR, complete("python_function", "f.py(1): f", 5, 1, pid=0, tid=0), OPERATOR]
    )
    assert trace.scan("span").collect()["pid"].unique().to_list() == [PID]
    assert losses == {f"host event under another pid than {PID}: taken as of this process": 1}


@pytest.fixture
def split(monkeypatch):
    """Have even small files read in two halves; the halves that were merged, as they come."""
    halves = []
    merge = Reading.merge
    monkeypatch.setattr("pasta.collect.importers.kineto.halves._SPLIT_BYTES", 1)
    monkeypatch.setattr("pasta.collect.importers.kineto.halves._HEAD_START", 0)
    monkeypatch.setattr(
        "pasta.collect.importers.kineto.halves.os.sched_getaffinity", lambda _: {0, 1}
    )
    monkeypatch.setattr(Reading, "merge", lambda own, half: (halves.append(half), merge(own, half)))
    return halves


def mixed_events():
    begin = {"ph": "B", "cat": "cpu_op", "name": "long", "pid": PID, "tid": 9, "ts": 1}
    events = [begin]
    for n in range(300):
        args = {"External id": n, "Call stack": f"a.py({n % 7}): f;b.py(1): g"}
        events.append(complete("cpu_op", f"op{n % 5}", 1 + n // 3, 10, **args))
        events.append(
            complete("kernel", "ncclDevKernel_AllReduce()", 5 + n, 1, pid=0, stream=n % 2)
        )
    return [*events, begin | {"ph": "E", "ts": 900}]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("helper", ["pasta.collect.importers.kineto.helper", "no.such.module"])
def test_two_processes_give_what_one_gives(tmp_path, monkeypatch, split, helper, compressed):
    document = {"traceEvents": mixed_events(), "baseTimeNanoseconds": 10**18}
    text = json.dumps(document).encode()
    file = tmp_path / "trace.json"
    file.write_bytes(gzip.compress(text) if compressed else text)
    monkeypatch.setattr("pasta.collect.importers.kineto.halves._HELPER", helper)
    import_trace([file], tmp_path / "two")
    assert [type(half) for half in split] == ([] if "no" in helper.split(".") else [Half])
    monkeypatch.setattr("pasta.collect.importers.kineto.halves._SPLIT_BYTES", 1 << 40)
    import_trace([file], tmp_path / "one")
    one, two = Trace.open(tmp_path / "one"), Trace.open(tmp_path / "two")
    assert one.tables() == two.tables()
    for table in one.tables():
        assert one.scan(table).collect().equals(two.scan(table).collect()), table
    assert [path for path in (tmp_path / "two").iterdir() if path.name.startswith(".")] == []


def test_damage_in_the_second_half_counts_and_stops_strict_imports(tmp_path, split):
    text = json.dumps({"traceEvents": mixed_events()})
    cut = text[: len(text) * 9 // 10]
    file = tmp_path / "trace.json"
    file.write_text(cut)
    report = import_trace([file], tmp_path / "out")
    kept = cut.count('{"ph"') - 1
    assert f"cut at byte {len(cut)}, {kept} events kept" in [
        reason.partition(": ")[2] for _, reason, _, _ in report.losses
    ]
    assert len(split) == 1
    file.write_text(text.replace('"External id": 299', '"External id": '))
    with pytest.raises(InputError, match=r"trace\.json at byte \d+ .*damaged event"):
        import_trace([file], tmp_path / "strict", strict=True)
    assert not (tmp_path / "strict").exists()


@pytest.mark.parametrize("block_bytes", [1, 500, 1 << 20])
def test_blocks_of_any_size_give_the_same_rows(tmp_path, monkeypatch, block_bytes):
    events = [complete("cpu_op", f"op{n}", 1 + n, 3, **{"External id": n}) for n in range(40)]
    events += [complete("kernel", "ncclDevKernel_AllReduce()", 5 + n, 1, pid=0) for n in range(40)]
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"traceEvents": events}, indent=1))
    import_trace([file], tmp_path / "whole")
    small = Kineto(block_bytes)
    monkeypatch.setattr("pasta.collect.importing._importer_of", lambda _: ("kineto", small))
    import_trace([file], tmp_path / "blocks")
    whole, blocks = Trace.open(tmp_path / "whole"), Trace.open(tmp_path / "blocks")
    for table in ("span", "kernel", "collective", "thread", "process"):
        assert whole.scan(table).collect().equals(blocks.scan(table).collect())


def test_kernels_of_a_graph_share_their_launch(imported):
    trace, _ = imported(
        [
            complete("cuda_runtime", "hipGraphLaunch", 1, 5, correlation=4),
            *(complete("kernel", f"k{n}", 10 + n, 1, pid=0, correlation=4) for n in range(3)),
        ]
    )
    kernels = trace.scan("kernel").collect()
    assert kernels["correlation"].to_list() == [4, 4, 4]
    assert kernels["launch_id"].to_list() == [1, 2, 3]
    assert kernels.filter(pl.col("launch_id") == 0).is_empty()


def test_ids_and_numbers_that_nobody_can_mean_cost_only_themselves(imported):
    odd = [{"a": [1]}, [[1]], 10**400, "x", True, 1.5]
    trace, losses = imported(
        [
            *(complete("cpu_op", "ids", 1, 1, **{"External id": value}) for value in odd),
            *(complete("kernel", "k", 1, 1, pid=0, correlation=value) for value in odd),
            *(complete("cpu_op", "threads", 1, 1, tid=value) for value in odd),
            *(complete("cpu_op", "processes", 1, 1, pid=value) for value in odd),
            complete("cpu_op", "last", 1, 1),
        ],
        distributedInfo={"world_size": 1 << 40},
        deviceProperties=[{"id": 0, "numSms": 1 << 62, "totalGlobalMem": -1}],
    )
    names = dict(trace.scan("span").collect()["name"].value_counts().iter_rows())
    assert names == {"ids": 6, "threads": 4, "processes": 4, "last": 1}
    assert trace.rows("kernel") == 6
    assert rows(trace, "process", "world_size") == [(None,)]
    assert rows(trace, "device", "multiprocessors", "memory_bytes")[0] == (None, None)
    assert losses["damaged event: left out"] == 4


@pytest.mark.parametrize("time", ["1e999999", "1e-999999", "9" * 5000, "[]", "{}"])
def test_times_that_nobody_can_mean_are_unknown(imported, time):
    text = f'{{"traceEvents": [{json.dumps(OPERATOR)}, {json.dumps(OPERATOR)}]}}'
    trace, losses = imported([], text=text.replace('"ts": 100', f'"ts": {time}', 1))
    assert rows(trace, "span", "ts") == [(100_000,)]
    assert sum(losses.values()) == 1
