"""What the collector `cuda` does without a GPU: choices, peaks, buffers, and records as rows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

from pasta.collect import native_library
from pasta.collect.channel import Channel
from pasta.collect.toolkits import find_headers
from pasta.collect.wire import TEXT, TEXTS, WIRE_TABLES, Decoder

pytestmark = pytest.mark.native
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
def includes():
    folders = [find_headers(name) for name in ("cuda.h", "crt/host_defines.h", "cupti.h")]
    if None in folders:
        pytest.skip("there are no headers of CUPTI")
    return [f"-isystem{folder}" for folder in dict.fromkeys(folders)]


def tables_of(channel):
    """Return the tables that the channel's one producer wrote."""
    batches, decoder = {}, None
    while (batch := channel.poll()) is not None:
        with batch:
            decoder = decoder or Decoder(batch.producer)
            if batch.table in (TEXT, TEXTS):
                decoder.learn(batch.table, batch.rows)
            else:
                rows = pl.from_arrow(decoder.rows(batch.table, batch.rows))
                batches.setdefault(batch.table, []).append(rows)
    assert channel.losses() == []
    return {table: pl.concat(parts) for table, parts in batches.items()}


@pytest.fixture(scope="module")
def rows(includes, tmp_path_factory):
    """The tables that a row of made-up records gives."""
    program = compiled("activity_rows", tmp_path_factory.mktemp("native"), *includes)
    with Channel.create("activity", tables=WIRE_TABLES) as channel:
        subprocess.run([program, str(channel.folder)], check=True)
        return tables_of(channel)


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
    assert (
        kernels.row(0, named=True).items()
        >= dict(zip(columns, (100, 7, 3, 5 << 32, 4, 2, 256), strict=True)).items()
    )
    assert kernels["shared_bytes"].to_list() == [48, 48]


def test_calls_have_names_without_version(rows):
    names = ["cudaLaunchKernel", "cuGraphLaunch", "unknown call"]
    calls = rows["call"].filter(tid=42)
    assert calls.select("name", "dur", "correlation").rows() == [(name, 10, 7) for name in names]


def test_objects_live_from_allocation_to_release(rows):
    columns = ["event", "space", "object_id", "total_allocated", "total_reserved", "stream", "tid"]
    assert set(rows["memory"].select(columns).rows()) == {
        ("allocate", "managed", 1, None, None, None, None),
        ("release", "managed", 1, None, None, None, None),
        ("allocate", "pool", 2, 64, 4096, 9, None),
        ("release", "pool", 0, 64, 4096, 9, 43),
    }


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
        ("activity record of kind 17: left out", 1),
        ("kernel without sound times: kept as unfinished", 1),
        ("memset without sound times: kept as unfinished", 1),
    ]


@pytest.fixture(scope="module")
def collected(includes, tmp_path_factory):
    """A function that runs a program under the collector and a CUPTI that is made up."""
    folder = tmp_path_factory.mktemp("native")
    shared = ("-fPIC", "-shared", "-Wno-unused-parameter", *includes)
    fake = compiled("fake_cupti", folder, *shared)
    program = compiled("collected_program", folder, "-ldl")
    library = native_library.activity_library()

    def collect(wrong="", launches=5, pause_ms=0, at=0, **options):
        told = {"PASTA_CUPTI": str(fake), "FAKE_CUPTI": wrong}
        settings = {"offset": 0, "cuda": {"level": "kernels", **options}}
        with Channel.create("collected", tables=WIRE_TABLES) as channel:
            told |= {"PASTA_CHANNEL": str(channel.folder), "PASTA_COLLECT": json.dumps(settings)}
            command = [program, library, fake, *map(str, (launches, pause_ms, at))]
            subprocess.run(command, env={**os.environ, **told}, check=True, timeout=300)
            return tables_of(channel)

    return collect


def lost(tables):
    return dict(tables["loss"].select("reason", "count").iter_rows())


def test_a_program_is_recorded_to_its_end(collected):
    tables = collected(launches=3000)
    kernels = tables["kernel"]
    assert kernels["correlation"].to_list() == list(range(1, 3001))
    assert kernels["launch_id"].to_list() == list(range(1, 3001))
    assert kernels["dur"].unique().to_list() == [10]
    assert kernels["pid"].n_unique() == 1
    assert lost(tables) == {
        "memsets cannot be recorded: FAKE": 1,
        "migrations and faults of managed memory cannot be recorded: FAKE": 1,
    }


def test_records_that_cupti_drops_are_counted(collected):
    tables = collected("full")
    assert tables["kernel"].height == 5
    assert lost(tables)["records that CUPTI dropped: its buffers were full"] == 3


def test_buffers_that_are_not_read_to_their_end_are_counted(collected):
    tables = collected("unread")
    buffers = [count for reason, count in lost(tables).items() if "not read to their end" in reason]
    assert sum(buffers) == tables["kernel"].height < 5


def test_who_holds_cupti_is_told(collected):
    tables = collected("busy", launches=0)
    (reason,) = lost(tables)
    assert reason == (
        "nothing of CUDA is recorded: another client holds CUPTI:"
        " the program itself, or a tool it runs under"
    )


def test_launches_without_a_record_are_told(collected):
    tables = collected("taken")
    assert "kernel" not in tables
    told = [reason for reason in lost(tables) if "launches brought no record" in reason]
    assert len(told) == 1
    assert "another client has taken CUPTI's buffers" in told[0]


def test_records_that_break_off_are_told(collected):
    tables = collected("taken-later", launches=10, pause_ms=500, at=5)
    assert tables["kernel"].height == 5
    assert [reason for reason in lost(tables) if reason.startswith("records of CUDA ended before")]


def test_calls_that_launch_have_native_stacks_on_request(collected):
    tables = collected("calls", launches=300, stacks=True)
    calls, frames = tables["call"], tables["frame"]
    assert calls["name"].unique().to_list() == ["cuLaunchKernel"]
    assert calls.height == 300
    (stack_id,) = calls["stack_id"].unique()
    stack = frames.filter(stack_id=stack_id).sort("depth")
    assert stack["depth"].to_list() == [*range(frames.height)]
    assert stack.row(-1, named=True)["function"] == "fake_launch"
    assert stack.row(-1, named=True)["library"] == "fake_cupti"
    assert "main" in stack["function"].to_list()
    assert set(frames["language"]) == {"c++"}


def test_without_request_there_are_no_stacks(collected):
    tables = collected("calls")
    assert tables["call"]["stack_id"].to_list() == [0] * 5
    assert "frame" not in tables


RANGES = """
#include <nvtx3/nvToolsExt.h>
#include <dlfcn.h>
#include <unistd.h>
int main(int, char **arguments) {
    nvtxRangePushA("before CUDA");
    nvtxRangePushA("epoch");
    nvtxRangePop();
    reinterpret_cast<int (*)()>(dlsym(dlopen(arguments[1], RTLD_NOW), "InitializeInjection"))();
    nvtxDomainHandle_t domain = nvtxDomainCreateA("mine");
    nvtxEventAttributes_t attributes{};
    attributes.version = NVTX_VERSION, attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    attributes.message.registered = nvtxDomainRegisterStringA(domain, "load");
    nvtxDomainRangePushEx(domain, &attributes);
    usleep(300000);
    nvtxDomainRangePop(domain);
    nvtxRangePop();
    nvtxRangePushA("open");
}
"""


def test_ranges_are_spans_whether_or_not_cuda_was_there(includes, tmp_path):
    if not any((Path(folder.removeprefix("-isystem")) / "nvtx3").is_dir() for folder in includes):
        pytest.skip("there are no headers of NVTX")
    fake = compiled("fake_cupti", tmp_path, "-fPIC", "-shared", "-Wno-unused-parameter", *includes)
    source, program = tmp_path / "ranges.cpp", tmp_path / "ranges"
    source.write_text(RANGES)
    subprocess.run(["c++", *includes, source, "-o", program, "-ldl"], check=True)
    library = native_library.activity_library()
    settings = {"offset": 10**15, "cuda": {"level": "kernels"}}
    told = {"PASTA_CUPTI": str(fake), "NVTX_INJECTION64_PATH": library}
    with Channel.create("ranges", tables=WIRE_TABLES) as channel:
        told |= {"PASTA_CHANNEL": str(channel.folder), "PASTA_COLLECT": json.dumps(settings)}
        subprocess.run([program, library], env={**os.environ, **told}, check=True)
        tables = tables_of(channel)
    spans = tables["span"].sort("ts")
    assert spans["name"].to_list() == ["before CUDA", "epoch", "load"]
    assert spans["tid"].to_list() == spans["pid"].to_list()
    outer, epoch, load = spans.rows(named=True)
    assert outer["ts"] > 10**15
    assert epoch["ts"] + epoch["dur"] <= load["ts"]
    assert load["dur"] > 300_000_000
    assert load["ts"] + load["dur"] <= outer["ts"] + outer["dur"]
    assert lost(tables)["NVTX ranges without an end: left out"] == 1
