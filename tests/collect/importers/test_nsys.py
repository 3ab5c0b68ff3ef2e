"""Exports of Nsight Systems become the tables that they hold."""

from __future__ import annotations

import contextlib
import gzip
import random
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pasta.collect.importing import import_part
from pasta.errors import InputError
from tests.collect.importers.nsys_help import (
    BASE,
    COPY,
    KERNEL,
    NVTX,
    OTHER,
    PROCESS,
    RUNTIME,
    copy,
    export,
    folder,
    imported,
    kernel,
    losses,
    mark,
    process,
    rows,
    thread,
)

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"


def one(path: Path, table: str, tmp_path: Path) -> list[dict[str, Any]]:
    trace, report = imported(path, tmp_path / "out")
    assert report.losses == []
    found: list[dict[str, Any]] = rows(trace, table)
    return found


def test_a_kernel_and_its_call(tmp_path: Path) -> None:
    path = export(
        tmp_path / "x.sqlite",
        **{
            KERNELS: (KERNEL, [kernel(100, 130, graphId=9, graphNodeId=1 << 40)]),
            CALLS: (RUNTIME, [[90, 99, 0, thread(), 5, 4, 0, None]]),
            "PROCESSES": (("globalPid", "pid", "name"), [(process(), PROCESS, "train")]),
            "ThreadNames": (("nameId", "globalTid"), [(7, thread()), (8, thread(99))]),
            "TARGET_INFO_GPU": (
                (
                    "id",
                    "cuDevice",
                    "name",
                    "smCount",
                    "totalMemory",
                    "computeMajor",
                    "computeMinor",
                ),
                [(3, 0, "NVIDIA H100", 132, 1 << 36, 9, 0)],
            ),
            "TARGET_INFO_CUDA_DEVICE": (("gpuId", "cudaId", "pid"), [(3, 0, PROCESS)]),
        },
    )
    trace, report = imported(path, tmp_path / "out")
    assert report.losses == []
    (found,) = rows(trace, "kernel")
    assert found == {
        "rank": 0, "pid": PROCESS, "device": 0, "ts": BASE + 100, "dur": 30, "launch_id": 1,
        "correlation": 5, "external_id": 0, "graph_id": 9, "graph_node_id": 1 << 40, "context": 1,
        "stream": 7, "name": "void add<float>(float*, int)", "grid_x": 2, "grid_y": 3, "grid_z": 4,
        "block_x": 32, "block_y": 1, "block_z": 1, "registers": 16, "static_shared": 64,
        "dynamic_shared": 128, "shared_bytes": None, "local_bytes": 8,
    }  # fmt: skip
    (call,) = rows(trace, "call")
    assert (call["pid"], call["tid"], call["name"], call["result"]) == (
        PROCESS, 7, "cudaLaunchKernel", 0,
    )  # fmt: skip
    assert (call["ts"], call["dur"], call["correlation"]) == (BASE + 90, 9, 5)
    (started,) = rows(trace, "process")
    assert (started["pid"], started["command"]) == (PROCESS, "train")
    assert (started["started"], started["ended"]) == (BASE + 90, BASE + 130)
    assert [(row["tid"], row["name"]) for row in rows(trace, "thread")] == [(7, "main")]
    (device,) = rows(trace, "device")
    assert (device["vendor"], device["name"], device["multiprocessors"]) == (
        "nvidia", "NVIDIA H100", 132,
    )  # fmt: skip
    assert (device["memory_bytes"], device["compute_capability"]) == (1 << 36, "9.0")


def test_processes_and_devices_keep_apart(tmp_path: Path) -> None:
    path = export(
        tmp_path / "x.sqlite",
        **{
            KERNELS: (
                KERNEL,
                [kernel(1, 2), kernel(3, 4, deviceId=1, globalPid=process(OTHER))],
            ),
            CALLS: (
                RUNTIME,
                [[0, 1, 0, thread(), 5, 4, 0, None], [2, 3, 0, thread(8, OTHER), 5, 5, 1, None]],
            ),
        },
    )
    trace, _ = imported(path, tmp_path / "out")
    assert [(row["pid"], row["device"]) for row in rows(trace, "kernel")] == [
        (PROCESS, 0),
        (OTHER, 1),
    ]
    assert [(row["pid"], row["tid"], row["name"]) for row in rows(trace, "call")] == [
        (PROCESS, 7, "cudaLaunchKernel"),
        (OTHER, 8, "cuMemcpyHtoD_v2"),
    ]
    assert {row["pid"] for row in rows(trace, "process")} == {PROCESS, OTHER}
    assert {(row["pid"], row["device"]) for row in rows(trace, "device")} == {
        (PROCESS, 0),
        (OTHER, 1),
    }


def test_the_oldest_exports_name_neither_process_nor_time_base(tmp_path: Path) -> None:
    path = export(
        tmp_path / "x.sqlite",
        TARGET_INFO_SESSION_START_TIME=(("utcEpochNs",), []),
        **{
            KERNELS: (("start", "end", "shortName", "correlationId"), [(5, 6, 2, 1)]),
            CALLS: (("start", "end", "globalTid", "nameId"), [(1, 2, thread(), 4)]),
        },
    )
    trace, report = imported(path, tmp_path / "out")
    (found,) = rows(trace, "kernel")
    assert (found["ts"], found["pid"], found["name"], found["grid_x"]) == (5, PROCESS, "add", None)
    assert losses(report) == {
        "time of the session's start is not in the file: times are relative to it": 1,
        f"row that names no process: taken as of {PROCESS}": 1,
    }


def test_kernels_without_a_time_or_a_name_or_an_end(tmp_path: Path) -> None:
    broken = [
        kernel(0, 0),
        kernel(10, None),
        kernel(20, 15),
        kernel(30, 40, demangledName=77, shortName=None),
        kernel(50, 60, gridX=-1),
        kernel(70, 1 << 62),
        kernel(-(1 << 63), 5),
    ]
    path = export(tmp_path / "x.sqlite", **{KERNELS: (KERNEL, broken)})
    trace, report = imported(path, tmp_path / "out")
    assert [(row["ts"] - BASE, row["dur"]) for row in rows(trace, "kernel")] == [
        (10, None),
        (20, None),
        (30, 10),
        (50, 10),
        (70, None),
    ]
    assert losses(report) == {
        "kernel without a start time (0, missing or absurd): left out": 2,
        "kernel without an end: kept as unfinished": 1,
        "kernel that ends before it begins: kept as unfinished": 1,
        "kernel that ends in a far future: kept as unfinished": 1,
        "kernel whose name is not in the file: kept without a name": 1,
        f"{KERNELS}.gridX is not a whole number that fits: read as null": 1,
    }
    with pytest.raises(InputError, match="kernel without a start time"):
        imported(path, tmp_path / "strict", strict=True)


def test_communication_kernels_are_numbered_on_their_streams(tmp_path: Path) -> None:
    kernels = [
        kernel(10, 20, demangledName=3),
        kernel(12, 22, demangledName=3, streamId=8),
        kernel(30, 40, demangledName=3),
        kernel(31, 41),
        kernel(32, 42, demangledName=3, globalPid=process(OTHER)),
    ]
    path = export(tmp_path / "x.sqlite", **{KERNELS: (KERNEL, kernels)})
    found = one(path, "collective", tmp_path)
    assert [
        (row["ts"] - BASE, row["pid"], row["stream"], row["sequence"], row["launch_id"])
        for row in found
    ] == [(10, PROCESS, 7, 0, 1), (12, PROCESS, 8, 0, 2), (30, PROCESS, 7, 1, 3),
          (32, OTHER, 7, 0, 5)]  # fmt: skip
    assert {(row["operation"], row["source"], row["sequence_source"]) for row in found} == {
        ("allreduce", "name", "counted")
    }


def test_copies_memsets_and_migrations(tmp_path: Path) -> None:
    path = export(
        tmp_path / "x.sqlite",
        CUPTI_ACTIVITY_KIND_MEMSET=(
            (*COPY[:8], "memKind"),
            [(40, 41, 0, 1, 7, 8, process(), 4, 2)],
        ),
        **{
            COPIES: (
                COPY,
                [
                    copy(10, 11, 1, srcKind=1, dstKind=2),
                    copy(20, 25, 11, correlationId=0, virtualAddress=-4096),
                    copy(30, 31, 99),
                    copy(50, 51, 1, bytes=-1),
                ],
            )
        },
    )
    trace, report = imported(path, tmp_path / "out")
    found = rows(trace, "copy")
    assert losses(report) == {"negative size: read as unknown": 1}
    assert [
        (row["ts"] - BASE, row["kind"], row["source"], row["destination"], row["correlation"])
        for row in found
    ] == [
        (10, "HtoD", "pinned", "device", 6),
        (20, "migration", "host", "device", 0),
        (30, "99", "", "", 6),
        (40, "memset", "", "device", 8),
        (50, "HtoD", "", "", 6),
    ]
    assert [row["destination_address"] for row in found] == [
        None,
        (1 << 64) - 4096,
        None,
        None,
        None,
    ]
    assert [row["bytes"] for row in found] == [100, 100, 100, 4, None]


def test_page_faults_are_metrics(tmp_path: Path) -> None:
    path = export(
        tmp_path / "x.sqlite",
        CUDA_UM_GPU_PAGE_FAULT_EVENTS=(
            ("start", "end", "globalPid", "deviceId", "address", "numberOfPageFaults"),
            [(10, 15, process(), 1, 4096, 3)],
        ),
        CUDA_UM_CPU_PAGE_FAULT_EVENTS=(
            ("start", "globalPid", "address", "sourceFile", "sourceLine"),
            [(12, process(), 4096, 11, 23), (13, process(), 4096, None, None)],
        ),
    )
    trace, report = imported(path, tmp_path / "out")
    assert [
        (row["ts"] - BASE, row["dur"], row["device"], row["name"], row["value"], row["source"])
        for row in rows(trace, "metric")
    ] == [
        (10, 5, 1, "gpu_page_faults", 3.0, None),
        (12, None, -1, "cpu_page_faults", 1.0, "fault.cu:23"),
        (13, None, -1, "cpu_page_faults", 1.0, None),
    ]
    assert losses(report) == {"address of a page fault: left out, the fault is kept": 3}


def test_synchronisations(tmp_path: Path) -> None:
    columns = (*COPY[:7], "syncType", "eventId")
    none = (1 << 32) - 1
    path = export(
        tmp_path / "x.sqlite",
        CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=(
            columns,
            [
                (10, 20, 0, 1, 22, 6, process(), 2, 40),
                (30, 40, 0, 1, none, 7, process(), 4, none),
            ],
        ),
    )
    found = one(path, "sync", tmp_path)
    assert [(row["kind"], row["stream"], row["event_id"]) for row in found] == [
        ("Stream wait sync", 22, 40),
        ("Context sync", None, 0),
    ]


def test_ranges_nest_by_thread_and_are_named_after_their_domain(tmp_path: Path) -> None:
    events = [
        mark(1, None, 75, "NCCL", domainId=3),
        mark(10, 100, 59, "outer"),
        mark(20, 30, 59, None, textId=6),
        mark(25, None, 34, "mark"),
        mark(40, 50, 59, "all reduce", domainId=3),
        mark(15, 35, 60, "other thread", globalTid=thread(8)),
        mark(60, None, 59, "open"),
        mark(61, None, 33, "a category"),
    ]
    path = export(tmp_path / "x.sqlite", NVTX_EVENTS=(NVTX, events))
    trace, report = imported(path, tmp_path / "out")
    found = rows(trace, "span")
    names = {row["span_id"]: row["name"] for row in found} | {0: None}
    assert [(row["name"], row["dur"], names[row["parent_id"]]) for row in found] == [
        ("outer", 90, None),
        ("other thread", 20, None),
        ("registered", 10, "outer"),
        ("mark", 0, "registered"),
        ("NCCL:all reduce", 10, "outer"),
        ("open", None, "outer"),
    ]
    assert {row["level"] for row in found} == {"annotation"}
    assert losses(report) == {
        "NVTX event that is no range and no mark: left out": 1,
        "NVTX range that never ended: kept as unfinished": 1,
    }


def test_calls_of_the_system_and_their_stacks(tmp_path: Path) -> None:
    path = export(
        tmp_path / "x.sqlite",
        OSRT_API=(
            ("start", "end", "globalTid", "nameId", "callchainId"),
            [(10, 20, thread(), 10, 1), (30, 40, thread(), 10, 2), (50, 60, thread(), 10, 0)],
        ),
        OSRT_CALLCHAINS=(
            ("id", "symbol", "module", "stackDepth"),
            [(1, 10, 9, 0), (1, 7, 9, 1), (2, 7, 9, 1), (2, 10, 9, 0)],
        ),
    )
    trace, report = imported(path, tmp_path / "out")
    assert report.losses == []
    found = rows(trace, "span")
    assert {(row["name"], row["level"]) for row in found} == {("poll", "library")}
    first, second, third = (row["stack_id"] for row in found)
    assert first == second != 0 == third
    frames = sorted(rows(trace, "frame"), key=lambda row: row["depth"])
    assert [(row["stack_id"], row["depth"], row["function"], row["library"]) for row in frames] == [
        (first, 0, "main", "libc.so"),
        (first, 1, "poll", "libc.so"),
    ]


def test_cpu_samples_and_waits(tmp_path: Path) -> None:
    path = export(
        tmp_path / "x.sqlite",
        COMPOSITE_EVENTS=(("id", "start", "globalTid", "cpuCycles"), [(1, 15, thread(), 500)]),
        SAMPLING_CALLCHAINS=(("id", "symbol", "module", "stackDepth"), [(1, 7, 9, 0)]),
        SCHED_EVENTS=(
            ("start", "cpu", "isSchedIn", "globalTid"),
            [
                (10, 0, 1, thread()), (20, 0, 0, thread()), (25, 0, 0, thread(8)),
                (32, 0, 1, thread()), (40, 0, 0, thread()),
            ],
        ),
    )  # fmt: skip
    found = one(path, "sample", tmp_path)
    assert [
        (row["ts"] - BASE, row["dur"], row["kind"], row["weight"], row["stack_id"] != 0)
        for row in found
    ] == [(15, None, "cycles", 500.0, True), (20, 12, "off_cpu", 12.0, False)]


def test_memory_and_counters_of_gpus(tmp_path: Path) -> None:
    path = export(
        tmp_path / "x.sqlite",
        CUDA_GPU_MEMORY_USAGE_EVENTS=(
            ("start", "globalPid", "deviceId", "address", "bytes", "memKind",
             "memoryOperationType", "localMemoryPoolAddress"),
            [
                (10, process(), 1, 4096, 512, 2, 0, None),
                (11, process(), 1, 8192, 64, 1, 0, None),
                (12, process(), 1, 4096, 512, 2, 1, None),
                (13, process(), 1, 4096, 512, 2, 0, 77),
            ],
        ),
        GPU_METRICS=(("timestamp", "typeId", "metricId", "value"), [(20, 256 + 1, 5, 62)]),
        TARGET_INFO_GPU_METRICS=(
            ("metricId", "metricName"), [(5, "SM Active [Throughput %]")],
        ),
    )  # fmt: skip
    trace, report = imported(path, tmp_path / "out")
    assert report.losses == []
    assert [
        (row["event"], row["space"], row["device"], row["address"], row["bytes"])
        for row in rows(trace, "memory")
    ] == [
        ("allocate", "device", 1, 4096, 512),
        ("allocate", "pinned", -1, 8192, 64),
        ("release", "device", 1, 4096, 512),
        ("allocate", "pool", 1, 4096, 512),
    ]
    (metric,) = rows(trace, "metric")
    assert (metric["pid"], metric["device"], metric["ts"]) == (PROCESS, 1, BASE + 20)
    assert (metric["name"], metric["value"], metric["unit"]) == ("SM Active", 62.0, "Throughput %")


def test_graphs_recorded_as_a_whole_and_what_has_no_table(tmp_path: Path) -> None:
    path = export(
        tmp_path / "x.sqlite",
        CUPTI_ACTIVITY_KIND_GRAPH_TRACE=((*COPY[:7], "graphId"), [(1, 9, 0, 1, 7, 5, process(), 4)]),
        DIAGNOSTIC_EVENT=(
            ("severity", "text"),
            [(1, "all is well"), (1, "12 events were dropped"), (2, "No NVTX events collected."),
             (3, "CUDA tracing failed")],
        ),
        VULKAN_API_EVENTS=(("start",), [(1,), (2,)]),
    )  # fmt: skip
    trace, report = imported(path, tmp_path / "out")
    (found,) = rows(trace, "kernel")
    assert (found["name"], found["graph_id"], found["dur"]) == ("CUDA graph", 4, 8)
    assert found["graph_node_id"] == 0
    assert losses(report) == {
        "CUDA graph recorded as a whole: kept as one kernel (nsys profile"
        " --cuda-graph-trace=node records its kernels)": 1,
        "Nsight Systems warned: 12 events were dropped": 1,
        "Nsight Systems warned: CUDA tracing failed": 1,
        "row of VULKAN_API_EVENTS: no table has room for it, left out": 2,
    }


def test_the_rank_of_mpi_and_an_export_without_rows(tmp_path: Path) -> None:
    path = export(tmp_path / "x.sqlite", MPI_RANKS=(("globalTid", "rank"), [(thread(), 3)]))
    _, report = imported(path, tmp_path / "out")
    assert report.ranks == [3]
    assert report.rows == {}
    assert report.warnings == ["no event of any table was found; the trace is empty"]


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_folders_give_the_same_rows(kind: str, tmp_path: Path) -> None:
    tables: dict[str, Any] = {
        KERNELS: (KERNEL, [kernel(10, 20), kernel(30, 45, demangledName=3)]),
        COPIES: (COPY, [copy(50, 60, 1)]),
        "NVTX_EVENTS": (NVTX, [mark(5, 70, 59, "outer"), mark(6, 7, 59, None, textId=6)]),
    }
    expected, _ = imported(export(tmp_path / "x.sqlite", **tables), tmp_path / "expected")
    found, report = imported(folder(tmp_path / "x", kind, **tables), tmp_path / "found")
    assert report.losses == []
    for table in ("kernel", "copy", "span", "collective", "process", "device", "thread"):
        assert rows(found, table) == rows(expected, table) != []


def test_a_damaged_file_of_a_folder_costs_its_table_only(tmp_path: Path) -> None:
    path = folder(tmp_path / "x", "parquet", **{KERNELS: (KERNEL, [kernel(10, 20)])})
    (path / f"{COPIES}.parquet").write_bytes(b"PAR1 damaged")
    trace, report = imported(path, tmp_path / "out")
    assert len(rows(trace, "kernel")) == 1
    assert losses(report) == {f"{COPIES}: file that cannot be read: left out": 1}


def test_a_compressed_export(tmp_path: Path) -> None:
    plain = export(tmp_path / "x.sqlite", **{KERNELS: (KERNEL, [kernel(10, 20)])})
    packed = tmp_path / "x.sqlite.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    trace, report = imported(packed, tmp_path / "out")
    assert len(rows(trace, "kernel")) == 1
    assert report.losses == []
    assert [file.name for file in tmp_path.iterdir() if "scratch" in file.name] == []


def test_a_part_of_a_recording_keeps_the_processes(tmp_path: Path) -> None:
    kernels = [kernel(10, 20), kernel(30, 40, globalPid=process(OTHER))]
    path = export(tmp_path / "report.sqlite", **{KERNELS: (KERNEL, kernels)})
    part = import_part(path, tmp_path / "part", 0)
    assert part is not None
    kernels_of = pl.read_parquet(part.folder / "kernel" / "*.parquet")
    assert kernels_of["pid"].to_list() == [PROCESS, OTHER]
    assert pl.read_parquet(part.folder / "process" / "*.parquet")["pid"].to_list() == [
        PROCESS,
        OTHER,
    ]


def test_rows_that_stand_in_no_order_are_sorted(tmp_path: Path) -> None:
    starts = list(range(10, 50_000, 3))
    random.Random(1).shuffle(starts)
    path = export(
        tmp_path / "x.sqlite", **{KERNELS: (KERNEL, [kernel(start, start + 2) for start in starts])}
    )
    trace, _ = imported(path, tmp_path / "out")
    assert [row["ts"] - BASE for row in rows(trace, "kernel")] == sorted(starts)


def everything(path: Path) -> Path:
    """Write a small export of all kinds of rows."""
    written: Path = export(
        path,
        NVTX_EVENTS=(NVTX, [mark(n, n + 5, 59, f"range {n}") for n in range(0, 400, 7)]),
        OSRT_API=(
            ("start", "end", "globalTid", "nameId", "callchainId"),
            [(n, n + 3, thread(), 10, 1) for n in range(100)],
        ),
        OSRT_CALLCHAINS=(("id", "symbol", "module", "stackDepth"), [(1, 10, 9, 0), (1, 7, 9, 1)]),
        SCHED_EVENTS=(
            ("start", "cpu", "isSchedIn", "globalTid"),
            [(n, 0, n % 2, thread()) for n in range(100)],
        ),
        GPU_METRICS=(
            ("timestamp", "typeId", "metricId", "value"), [(n, 1, 5, n) for n in range(100)],
        ),
        PROCESSES=(("globalPid", "pid", "name"), [(process(), PROCESS, "train")]),
        **{
            KERNELS: (KERNEL, [kernel(n, n + 2) for n in range(1, 300)]),
            COPIES: (COPY, [copy(n, n + 1, n % 14) for n in range(1, 100)]),
            CALLS: (RUNTIME, [[n, n + 1, 0, thread(), n, 4, 0, None] for n in range(200)]),
        },
    )  # fmt: skip
    return written


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 1 << 32))
def test_whatever_is_damaged_only_one_line_escapes(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    path = everything(tmp_path / "x.sqlite")
    content = bytearray(path.read_bytes())
    for _ in range(chance.randrange(1, 40)):
        at = chance.choice([chance.randrange(len(content)), chance.randrange(4096)])
        content[at : at + 4] = chance.randbytes(4)
    if chance.random() < 0.3:
        del content[chance.randrange(len(content)) :]
    path.write_bytes(content)
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    with contextlib.suppress(InputError):
        imported(path, tmp_path / "out")


ODD = st.one_of(
    st.none(),
    st.sampled_from([0, -1, 1 << 62, -(1 << 63), (1 << 63) - 1, 1 << 31, 1 << 32]),
    st.integers(-5, 50),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=5),
)


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_whatever_stands_in_columns_only_one_line_escapes(
    data: st.DataObject, tmp_path: Path
) -> None:
    def odd(columns: tuple[str, ...]) -> list[list[Any]]:
        return data.draw(st.lists(st.lists(ODD, min_size=len(columns), max_size=len(columns))))

    waits = ("start", "isSchedIn", "globalTid")
    counters = ("timestamp", "typeId", "metricId", "value")
    memory = (
        "start",
        "globalPid",
        "deviceId",
        "address",
        "bytes",
        "memKind",
        "memoryOperationType",
    )
    chains = ("id", "symbol", "module", "stackDepth")
    path = export(
        tmp_path / "x.sqlite",
        NVTX_EVENTS=(NVTX, odd(NVTX)),
        SCHED_EVENTS=(waits, odd(waits)),
        GPU_METRICS=(counters, odd(counters)),
        CUDA_GPU_MEMORY_USAGE_EVENTS=(memory, odd(memory)),
        CUDA_CALLCHAINS=(chains, odd(chains)),
        PROCESSES=(("globalPid", "name"), odd(("globalPid", "name"))),
        TARGET_INFO_SESSION_START_TIME=(("utcEpochNs",), odd(("utcEpochNs",))),
        **{
            KERNELS: (KERNEL, odd(KERNEL)),
            COPIES: (COPY, odd(COPY)),
            CALLS: (RUNTIME, odd(RUNTIME)),
        },
    )
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    with contextlib.suppress(InputError):
        trace, _ = imported(path, tmp_path / "out")
        for table in filter(trace.files, ("kernel", "copy", "span", "call", "sample")):
            assert all(row["dur"] is None or row["dur"] >= 0 for row in rows(trace, table))
