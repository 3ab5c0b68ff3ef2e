"""The CUDA collector on a GPU: graphs, managed memory, pools, ranges, other clients, operators."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import pasta
from pasta.collect.toolkits import find_cupti, find_nvcc

PROGRAMS = Path(__file__).with_name("cuda_programs")
MANAGED = 4 << 20
OPERATORS = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda()
for _ in range(3):
    model(torch.randn(16, 64, device="cuda")).square().mean().backward()
torch.cuda.synchronize()
"""
PROFILED = """
import torch

with torch.profiler.profile() as profiler:
    for _ in range(3):
        torch.randn(64, device="cuda").add_(1)
    torch.cuda.synchronize()
"""

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A function that runs a command under the collector: its output, what pasta said, the trace."""
    if not Path("/dev/nvidiactl").exists():
        pytest.skip("there is no NVIDIA GPU")
    folder = tmp_path_factory.mktemp("cuda")

    def collect(what, *command):
        trace = folder / f"trace-{len(list(folder.iterdir()))}"
        collector = [sys.executable, "-m", "pasta", "collect", "--with", what, "-o", trace, "--"]
        done = subprocess.run([*collector, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.split(), done.stderr, pasta.open(trace)

    return collect


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A function that compiles one of the programs."""
    nvcc, cupti = find_nvcc(), find_cupti()
    if nvcc is None or cupti is None:
        pytest.skip("there is no nvcc, or no CUPTI")
    folder = tmp_path_factory.mktemp("programs")

    def compiled(name):
        made = folder / name
        if not made.exists():
            source = PROGRAMS / f"{name}.cu"
            linked = [f"-L{cupti.parent}", "-lcupti", f"-Xlinker=-rpath={cupti.parent}"]
            command = [nvcc, "-std=c++17", "-arch=native", "-o", made, source, *linked]
            subprocess.run(command, check=True)
        return made

    return compiled


def rows(trace, table):
    return trace.scan(table).collect()


def reasons(trace):
    return rows(trace, "loss")["reason"].to_list() if trace.files("loss") else []


@pytest.mark.parametrize("level", ["kernels", "calls"])
def test_kernels_of_graphs_have_graph_node_and_launch(run, program, level):
    told, _, trace = run(f"cuda:{level}", program("graphs"))
    assert told == ["148", "148", "0", "0"]  # 4 replays of 2, 2 of 20, and 100
    kernels = rows(trace, "kernel")
    in_graphs = kernels.filter(pl.col("graph_id") > 0)
    assert (kernels.height, in_graphs.height) == (19, 18)
    each = in_graphs.group_by("correlation").agg(pl.len(), pl.col("graph_node_id").n_unique())
    assert each.select("len", "graph_node_id").unique().rows() == [(3, 3)]
    assert in_graphs["graph_node_id"].min() > 0
    launches = rows(trace, "call").filter(pl.col("name") == "cudaGraphLaunch")
    assert set(launches["correlation"]) == set(in_graphs["correlation"])
    assert launches.height == 6


def test_memory_of_every_kind_has_its_space_and_an_object(run, program):
    told, _, trace = run("cuda:calls", program("memory"))
    assert told == ["2048", "0"]
    memory = rows(trace, "memory")
    lives = memory.group_by("space", "bytes", "object_id").agg("event").sort("space", "bytes")
    expected = [
        ("device", 3 << 20),
        ("managed", MANAGED),
        ("pinned", 8192),
        ("pool", 1 << 20),
    ]
    seen = lives.filter(pl.struct("space", "bytes").is_in([*map(_pair, expected)]))
    assert seen.select("space", "bytes").rows() == expected
    assert seen["event"].to_list() == [["allocate", "release"]] * 4
    assert seen["object_id"].n_unique() == 4
    pool = memory.filter(pl.col("space") == "pool", pl.col("event") == "allocate")
    assert pool["total_allocated"].to_list() == [1 << 20]
    assert (pool["total_reserved"] >= 1 << 20).all()


def _pair(pair):
    return {"space": pair[0], "bytes": pair[1]}


def test_pages_of_managed_memory_migrate_and_fault(run, program):
    _, _, trace = run("cuda", program("memory"))
    refused = [reason for reason in reasons(trace) if "managed memory cannot" in reason]
    if refused:
        pytest.skip(refused[0])
    moved = rows(trace, "copy").filter(pl.col("kind") == "migration")
    directions = moved.group_by("source", "destination").agg(pl.col("bytes").sum())
    sums = {(source, destination): size for source, destination, size in directions.rows()}
    assert sums["host", "device"] == MANAGED
    assert 0 < sums["device", "host"] <= MANAGED
    address = moved["source_address"]
    assert (address.max() or 0) - (address.min() or 0) < MANAGED
    faults = rows(trace, "metric").group_by("name").agg(pl.col("value").sum())
    assert {"cpu_page_faults", "gpu_page_faults"} <= set(faults["name"])
    kernel = rows(trace, "kernel").row(0, named=True)
    into = moved.filter(pl.col("destination") == "device")
    assert kernel["ts"] <= into["ts"].min()
    assert (into["ts"] + into["dur"]).max() <= kernel["ts"] + kernel["dur"]


def test_the_device_has_its_peaks(run, program):
    _, _, trace = run("cuda", program("ranges"))
    device = rows(trace, "device").row(0, named=True)
    assert device["peak_bandwidth"] > 1e11
    if device["compute_capability"] == "9.0":
        assert device["peak_flops_bf16"] == 16 * device["peak_flops_fp32"] > 5e14


@pytest.mark.parametrize("level", ["kernels", "calls"])
def test_ranges_are_spans_around_their_launches(run, program, level):
    _, _, trace = run(f"cuda:{level}", program("ranges"))
    outer, inner = rows(trace, "span").sort("ts").rows(named=True)
    assert (outer["name"], inner["name"], inner["level"]) == ("outer", "inner", "annotation")
    assert inner["parent_id"] == outer["span_id"]
    launch = rows(trace, "call").filter(pl.col("name") == "cudaLaunchKernel").row(0, named=True)
    assert launch["tid"] == inner["tid"]
    assert inner["ts"] <= launch["ts"] < inner["ts"] + inner["dur"]
    assert launch["correlation"] == rows(trace, "kernel")["correlation"][0]


def test_a_client_that_was_first_is_told(run, program):
    told, said, trace = run("cuda", program("client"), "first")
    assert told == ["0", "5"]
    assert any("another client holds CUPTI" in reason for reason in reasons(trace))
    assert "nothing of CUDA is recorded" in said
    assert not trace.files("kernel")


def test_a_client_that_takes_the_buffers_is_told(run, program):
    told, said, trace = run("cuda", program("client"), "takes")
    assert told == ["39", "5"]  # 39: refused to subscribe
    assert any("nothing of CUDA is recorded" in reason for reason in reasons(trace))
    assert "another client has taken CUPTI's buffers" in said


def test_records_up_to_the_client_are_kept(run, program):
    _, said, trace = run("cuda", program("client"), "takes-later")
    assert rows(trace, "kernel").height == 5
    assert "records of CUDA ended before" in said


def test_nsight_and_the_sanitizer_leave_no_silence(run, program):
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("there is no compute-sanitizer")
    _, said, trace = run("cuda", sanitizer, program("ranges"))
    assert not trace.files("kernel")
    assert "no kernel was recorded" in said or "nothing of CUDA is recorded" in said


@pytest.mark.torch
@pytest.mark.parametrize("what", ["cuda,torch:operators", "cuda:calls,torch:operators"])
def test_every_kernel_has_its_operator(run, what):
    pytest.importorskip("torch")
    _, _, trace = run(what, sys.executable, "-c", OPERATORS)
    report = pasta.run("operator_time", trace)
    assert report.facts["kernels"] > 20
    assert report.facts["kernels_in_operators"] == report.facts["kernels"]
    paths = report.tables["on_device"]["path"].str.split(" > ").list.last()
    assert {"aten::addmm", "aten::mm"} <= set(paths)


@pytest.mark.torch
def test_beside_the_profiler_of_pytorch_all_is_recorded(run):
    pytest.importorskip("torch")
    _, _, trace = run("cuda", sys.executable, "-c", PROFILED)
    kernels = rows(trace, "kernel")
    assert kernels.height >= 6
    assert not [reason for reason in reasons(trace) if "CUDA" in reason]
