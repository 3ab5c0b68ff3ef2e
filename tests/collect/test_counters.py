"""Counting under Nsight Compute: what it is told, what becomes of its report, what goes wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

from pasta.collect.collectors import COLLECTORS
from pasta.collect.counters import SETS, Focus, arguments
from pasta.collect.recording import record_command
from pasta.collect.selection import Selection
from pasta.trace import Trace
from tests.collect.recorded_programs import ROOT, losses, table
from tests.collect.wrapped_programs import install

LOG = """\
==PROF== Connected to process 77 (/src/a.out)
==PROF== Profiling "add" - 0: 0%....50%....100% - 1 pass
==PROF== Disconnected from process 77
"""
DENIED = """\
==PROF== Connected to process 77 (/src/a.out)
==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance \
Counters on the target device 0. For instructions see the manual.
==WARNING== No kernels were profiled.
"""
NAMES = [
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"),
    *("Block Size", "Grid Size", "Device", "CC", "gpu__time_duration.sum", "lts__t_bytes.sum"),
]
UNITS = [*[""] * 11, "ns", "byte"]
ROW = [
    *("0", "77", "a.out", "127.0.0.1", "_Z3addPKfPf", "1", "7", "(256, 1, 1)", "(4, 1, 1)"),
    *("0", "9.0", "2848", "12288"),
]


def lines(*rows):
    """Rows as ncu prints them."""
    return "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)


RAW = lines(NAMES, UNITS, ROW)


def printed(folder):
    """What the stand-in was told to print: its arguments, and the locale."""
    told = (folder / "bin" / "printed.jsonl").read_text()
    return [json.loads(line) for line in told.splitlines()]


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """A function that records `true` under a stand-in of ncu with such a log and such pages."""

    def run(*, level="roofline", log=LOG, pages=None, report=True, **selection):
        leave = f"output.with_name('ncu.log').write_text({log!r})"
        if report:
            leave += "\noutput.write_text('a report')"
        install(monkeypatch, tmp_path / "bin", "ncu", leave)
        for name, text in ({"raw": RAW} if pages is None else pages).items():
            (tmp_path / "bin" / name).write_text(text)
        chosen = {"cuda.counters": level}
        done = record_command(["true"], tmp_path / "t", chosen, Selection(**selection))
        return done, Trace.open(tmp_path / "t")

    return run


def test_each_level_is_a_set():
    assert set(COLLECTORS["cuda.counters"].levels) == set(SETS)
    for level in SETS:
        told = arguments(Path("/t"), Focus(level))
        assert "--clock-control=none" in told
        assert all(text.startswith("--") and " " not in text for text in told)
        (metrics,) = (text for text in told if text.startswith("--metrics="))
        names = metrics.removeprefix("--metrics=").split(",")
        assert names[0] == "gpu__time_duration.sum"
        assert len(set(names)) == len(names)
    assert "--section=Occupancy" in arguments(Path("/t"), Focus("occupancy"))
    assert "--section=SourceCounters" in arguments(Path("/t"), Focus("stalls"))


def test_counters_by_name_take_the_place_of_the_set():
    told = arguments(Path("/t"), Focus("stalls", ("lts__t_bytes.sum", "gpu__time_duration.sum")))
    assert "--metrics=gpu__time_duration.sum,lts__t_bytes.sum" in told
    assert not any("--section" in text for text in told)


def test_ranges_and_names_are_passed_on():
    told = arguments(Path("/t"), Focus("roofline", ranges=("a/", "b@c"), match="gemm|conv"))
    assert told[-5:] == [
        *("--nvtx", "--nvtx-include=a/", "--nvtx-include=b@c"),
        *("--kernel-name-base=demangled", "--kernel-name=regex:gemm|conv"),
    ]


def test_a_report_becomes_launches_and_their_counters(counted):
    done, trace = counted(counters=("lts__t_bytes.sum",))
    assert done.notes == []
    kernel = table(trace, "kernel").row(0, named=True)
    assert (kernel["pid"], kernel["launch_id"], kernel["dur"]) == (77, 1, 2848)
    assert kernel["name"] == "add(float const*, float*)"
    of_launches = table(trace, "metric").filter(pl.col("launch_id") > 0)
    metrics = of_launches.select("launch_id", "name", "value", "unit")
    assert sorted(metrics.rows()) == [
        (1, "gpu__time_duration.sum", 2848.0, "ns"),
        (1, "lts__t_bytes.sum", 12288.0, "byte"),
    ]
    assert losses(trace) == {}
    assert (done.path / "cuda.counters" / "report.ncu-rep").read_text() == "a report"
    (collector,) = trace.info["collectors"]
    assert collector["counters"] == ["lts__t_bytes.sum"]


def test_the_report_is_printed_without_separators_of_thousands(counted, tmp_path):
    counted()
    ((told, locale),) = printed(tmp_path)
    report = tmp_path / "t" / "cuda.counters" / "report.ncu-rep"
    assert locale == "C"
    assert told == [
        *(f"--import={report}", "--csv", "--page=raw", "--print-units=base"),
        "--print-kernel-base=mangled",
    ]


def test_stalls_are_printed_by_instruction_after_their_source_lines(counted, tmp_path):
    source = lines(
        ["File Path", "/src/a.cu"],
        ["Function Name", "add(float const*, float*)"],
        ["Line No", "Source", "Address", "Source", "# Samples"],
        ["7", "b[i] = a[i];", "-", "-", "9"],
        ["", "", "0x1010", "LDG", "9"],
    )
    raw = lines(
        [*NAMES, "launch__function_pcs", "smsp__pcsamp_sample_count"],
        [*UNITS, "", ""],
        [*ROW, "1 (0: 4096)", "9 (0x1000: 0; 0x1010: 9)"],
    )
    _, trace = counted(level="stalls", pages={"raw": raw, "source": source})
    (first, _), (second, _) = printed(tmp_path)
    assert first[2:] == ["--page=source", "--print-source=cuda,sass"]
    assert second[-1] == "--print-metric-instances=details"
    by_instruction = table(trace, "metric").filter(pl.col("pc").is_not_null())
    assert by_instruction.select("launch_id", "pc", "source", "name", "value").rows() == [
        (1, 16, "/src/a.cu:7", "smsp__pcsamp_sample_count", 9.0)
    ]


def test_without_permission_one_line_says_what_to_do(counted):
    done, trace = counted(log=DENIED, report=False)
    first, second = done.notes
    assert first.startswith("cuda.counters: this user may not read the GPU's counters (ERR_NVGPUC")
    assert "NVreg_RestrictProfilingToAdminUsers=0" in first
    assert second.startswith("cuda.counters: no kernel was counted")
    assert {first.partition(": ")[2], second.partition(": ")[2]} == set(losses(trace))


def test_a_program_that_fails_is_no_failure_of_ncu(counted):
    done, trace = counted(
        log=LOG + "==ERROR== The application returned an error code (3).\n",
        counters=("lts__t_bytes.sum",),
    )
    assert (done.notes, losses(trace)) == ([], {})


def test_other_errors_of_ncu_are_told_once(counted):
    failed = "==ERROR== LaunchFailed\n" * 2
    done, trace = counted(log=LOG + failed, report=False)
    assert done.notes == ["cuda.counters: ncu: LaunchFailed"]
    assert losses(trace) == {"ncu: LaunchFailed": 1}


def test_counters_that_are_not_there_are_told_and_counted(counted):
    done, trace = counted(counters=("lts__t_bytes", "no__such.sum", "regex:dram.*"))
    assert done.notes == [
        "cuda.counters: there is no counter no__such.sum on this GPU; ncu --query-metrics lists them"
    ]
    missing = "counters of the set that this GPU or this ncu does not have"
    assert losses(trace) == {missing: 1}


def test_a_report_that_ncu_cannot_print_is_kept(counted):
    done, trace = counted(pages={})
    report = done.path / "cuda.counters" / "report.ncu-rep"
    assert report.exists()
    assert done.notes[0] == (
        f"cuda.counters: ncu could not print its report (--page=raw); it is kept: {report}"
    )
    assert losses(trace)["pages of ncu's report that it did not print"] == 1


VECTORS = """
#include <cuda_runtime.h>
__global__ void add(const float *a, float *b) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    b[i] = a[i] + 1.f;
}
int main() {
    float *a, *b;
    cudaMalloc(&a, 1 << 22); cudaMalloc(&b, 1 << 22);
    for (int launch = 0; launch < 3; ++launch) add<<<4096, 256>>>(a, b);
    return cudaDeviceSynchronize();
}
"""


@pytest.mark.gpu
@pytest.mark.parametrize("level", list(SETS))
def test_a_real_kernel_is_counted(level, tmp_path):
    if shutil.which("ncu") is None or shutil.which("nvcc") is None:
        pytest.skip("no Nsight Compute or no CUDA compiler")
    (tmp_path / "a.cu").write_text(VECTORS)
    command = ["nvcc", "-arch=native", "-lineinfo", "-o", tmp_path / "a.out", tmp_path / "a.cu"]
    subprocess.run(command, check=True, timeout=120)
    done = record_command(
        [str(tmp_path / "a.out")], tmp_path / "t", {"cuda.counters": level}, Selection()
    )
    assert done.notes == []
    trace = Trace.open(tmp_path / "t")
    kernels = table(trace, "kernel").sort("launch_id")
    assert kernels["launch_id"].to_list() == [1, 2, 3]
    assert kernels["name"].to_list() == ["add(float const*, float*)"] * 3
    assert kernels["dur"].is_between(1_000, 1_000_000).all()
    whole = table(trace, "metric").filter(pl.col("pc").is_null())
    first = dict(whole.filter(pl.col("launch_id") == 1).select("name", "value").rows())
    if level == "roofline":
        assert first["smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"] == 1 << 20
        assert first["l1tex__t_bytes.sum"] == 2 << 22
    if level == "occupancy":
        assert first["sm__maximum_warps_per_active_cycle_pct"] == 100
        assert 10 < first["sm__warps_active.avg.pct_of_peak_sustained_active"] <= 100
    if level == "stalls":
        by_instruction = table(trace, "metric").filter(pl.col("pc").is_not_null())
        executed = by_instruction.filter(pl.col("name") == "inst_executed")
        sums = executed.group_by("launch_id").agg(pl.col("value").sum()).sort("launch_id")
        assert sums["value"].to_list() == [first["inst_executed"]] * 3
        lines = by_instruction["source"].drop_nulls()
        assert {"a.cu:4", "a.cu:5"} <= {Path(line).name for line in lines}
