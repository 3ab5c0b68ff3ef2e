"""What the collector `cuda` does without a GPU: choices, peaks, buffers, and records as rows."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

from pasta.collect.channel import Channel
from pasta.collect.toolkits import find_headers
from pasta.collect.wire import TEXT, TEXTS, WIRE_TABLES, Decoder

HERE = Path(__file__).parent
FLAGS = ("-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers")


def compiled(name, folder, *arguments):
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    made = folder / name
    source = str(HERE / f"{name}.cpp")
    subprocess.run([compiler, *FLAGS, *arguments, source, "-o", str(made), "-pthread"], check=True)
    return made


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    program = compiled("cuda_activity", tmp_path_factory.mktemp("native"))

    def ask(*arguments, given=""):
        done = subprocess.run(
            [program, *arguments], input=given, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    return ask


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """The tables that a row of made-up records gives."""
    folders = [find_headers(name) for name in ("cuda.h", "crt/host_defines.h", "cupti.h")]
    if None in folders:
        pytest.skip("there are no headers of CUPTI")
    includes = [f"-isystem{folder}" for folder in dict.fromkeys(folders)]
    program = compiled("activity_rows", tmp_path_factory.mktemp("native"), *includes)
    tables = {}
    with Channel.create("activity", tables=WIRE_TABLES) as channel:
        subprocess.run([program, str(channel.folder)], check=True)
        decoder = None
        while (batch := channel.poll()) is not None:
            with batch:
                decoder = decoder or Decoder(batch.producer)
                if batch.table in (TEXT, TEXTS):
                    decoder.learn(batch.table, batch.rows)
                else:
                    tables[batch.table] = pl.from_arrow(decoder.rows(batch.table, batch.rows))
    return tables


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel 1 1 0"),
        ("cudaLaunchKernelExC_ptsz_v11060", "cudaLaunchKernelExC_ptsz 1 1 0"),
        ("cuLaunchKernelEx", "cuLaunchKernelEx 1 1 1"),
        ("cuGraphLaunch", "cuGraphLaunch 1 1 1"),
        ("cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync 1 1 0"),
        ("cudaGraphAddMemcpyNode_v10000", "cudaGraphAddMemcpyNode 0 0 0"),
        ("cuLaunchHostFunc", "cuLaunchHostFunc 0 1 0"),
        ("cudaMallocAsync_v11020", "cudaMallocAsync 0 1 0"),
        ("cudaStreamSynchronize_v3020", "cudaStreamSynchronize 0 1 0"),
        ("cudaGetDevice_v3020", "cudaGetDevice 0 0 0"),
        ("cudaEventQuery_v3020", "cudaEventQuery 0 0 0"),
        ("cuda_vision", "cuda_vision 0 0 0"),
    ],
)
def test_calls_are_chosen_by_name(answer, name, told):
    assert answer("calls", name) == [told]


def test_peaks_are_those_of_the_data_sheets(answer):
    """A100 at 1410 MHz: 19.5, 19.5, 156, 312 TFLOP/s; H100 SXM at 1830 MHz: 989 in bfloat16."""
    assert answer("peaks", "8", "0", "108", "1410000") == [
        "19491840000000 19491840000000 155934720000000 311869440000000 311869440000000 0"
    ]
    (told,) = answer("peaks", "9", "0", "132", "1830000")
    assert [round(float(rate) / 1e12, 1) for rate in told.split()] == [
        61.8,
        61.8,
        494.7,
        989.4,
        989.4,
        1978.9,
    ]
    assert answer("peaks", "3", "5", "15", "875000") == ["0 0 0 0 0 0"]


def test_clients_are_told_by_their_libraries(answer):
    line = "7f00-7f01 r-xp 00000000 08:01 1   /opt/{}\n"
    maps = [line.format(name) for name in ("libc.so.6", "libcupti.so.13")]
    assert answer("clients", given="".join(maps)) == [""]
    maps.append(line.format("compute-sanitizer/libsanitizer-public.so"))
    assert answer("clients", given="".join(maps)) == ["Compute Sanitizer"]
    maps.append(line.format("torch/lib/libtorch_cpu.so"))
    assert answer("clients", given="".join(maps)) == ["Compute Sanitizer or PyTorch's profiler"]
    assert answer("clients", given=line.format("libToolsInjection64.so")) == ["Nsight Systems"]


def test_buffers_are_used_again_zeroed_and_come_in_order(answer):
    assert answer("buffers") == ["2 100 50 dropped 5", "1 0 0", "1", "0"]


def test_kernels_have_their_graph_and_the_name_that_they_had(rows):
    kernels = rows["kernel"]
    assert kernels["name"].to_list() == [
        "add(float const*, float const*, float*)",
        "mul(float const*, float const*, float*)",
    ]
    assert kernels["dur"].to_list() == [30, None]
    assert kernels["launch_id"].to_list() == [1, 2]
    columns = ["ts", "correlation", "graph_id", "graph_node_id", "grid_x", "grid_y", "block_x"]
    assert kernels.row(0, named=True).items() >= dict(
        zip(columns, (100, 7, 3, 5 << 32, 4, 2, 256), strict=True)
    ).items()
    assert kernels["shared_bytes"].to_list() == [48, 48]


def test_calls_have_names_without_version(rows):
    names = ["cudaLaunchKernel", "cuGraphLaunch", "unknown call"]
    assert rows["call"].select("name", "tid", "dur", "correlation").rows() == [
        (name, 42, 10, 7) for name in names
    ]


def test_objects_live_from_allocation_to_release(rows):
    columns = ["event", "space", "object_id", "total_allocated", "total_reserved", "stream"]
    assert rows["memory"].select(columns).rows() == [
        ("allocate", "managed", 1, None, None, None),
        ("release", "managed", 1, None, None, None),
        ("allocate", "pool", 2, 64, 4096, 9),
        ("release", "pool", 0, 64, 4096, 9),
    ]


def test_migrations_are_copies_and_faults_are_metrics(rows):
    moved = rows["copy"].filter(kind="migration")
    columns = ["device", "source", "destination", "source_address", "bytes", "dur", "stream"]
    assert moved.select(columns).rows() == [
        (1, "host", "device", 0x2000, 65536, 4, None),
        (0, "device", "host", 0x2000, 65536, 4, None),
        (0, "device", "device", 0x2000, 65536, 4, None),
    ]
    assert rows["metric"].select("name", "device", "value", "unit", "dur").rows() == [
        ("cpu_page_faults", -1, 1, "faults", None),
        ("gpu_page_faults", 0, 65536, "faults", 4),
        ("page_thrashing", -1, 65536, "bytes", None),
        ("page_throttling", 0, 1, "throttlings", 4),
        ("remote_mapping", 1, 65536, "bytes", None),
    ]


def test_copies_memsets_ranges_and_devices(rows):
    copies = rows["copy"].filter(pl.col("kind") != "migration")
    assert copies.select("kind", "source", "destination", "bytes", "dur").rows() == [
        ("DtoH", "device", "pageable", 8, 5),
        ("memset", None, "device", 16, None),
    ]
    assert rows["span"].select("name", "tid", "ts", "dur", "level").rows() == [
        ("load", 42, 40, 50, "annotation")
    ]
    columns = ["peak_flops_fp32", "peak_flops_fp16", "peak_flops_bf16", "peak_bandwidth"]
    assert rows["device"].select(columns).rows() == [(2.56e12, 1.024e13, None, 2e6)]


def test_what_makes_no_sense_is_counted(rows):
    lost = rows["loss"].group_by("reason").agg(pl.col("count").sum()).sort("reason")
    assert lost.rows() == [
        ("NVTX ranges without an end: left out", 1),
        ("activity record of kind 17: left out", 1),
        ("kernel without sound times: kept as unfinished", 1),
        ("memset without sound times: kept as unfinished", 1),
    ]
