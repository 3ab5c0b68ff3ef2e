"""Reference results written by others, on the real traces they were computed from."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import polars as pl
import pytest

import pasta

TRACES = {
    "h100_bert_small": "tracelens_h100_bert_small",
    "mi300_bert_small": "tracelens_mi300_bert_small",
    "mi210_gpu_only": "tracelens_mi210_gpu_only",
    "sglang_decode": "tracelens_sglang_decode_hipgraph",
    "torch_compile_triton": "tracelens_torch_compile_triton",
}
TOLERANCE_NS = 2_000
"""The references went through floats of milliseconds."""


def reference_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("golden", list(TRACES))
def test_busy_time(samples, golden):
    """Busy, compute and exposed copy time equal the references."""
    rows = reference_rows(samples / "golden" / f"{golden}.gpu_timeline.csv")
    expected = {row["type"]: float(row["time ms"]) * 1e6 for row in rows}
    trace = samples / "kineto" / f"{TRACES[golden]}.json.gz"
    found = pasta.run("device_time", trace=trace).tables["devices"].to_dicts()[0]
    assert found["busy_ns"] == pytest.approx(expected["busy_time"], abs=TOLERANCE_NS)
    assert found["compute_ns"] == pytest.approx(expected["computation_time"], abs=TOLERANCE_NS)
    exposed_copy = found["busy_ns"] - found["compute_ns"] - found["exposed_communication_ns"]
    assert exposed_copy == pytest.approx(expected["exposed_memcpy_time"], abs=TOLERANCE_NS)


@pytest.mark.parametrize("golden", sorted(set(TRACES) - {"sglang_decode"}))
def test_kernel_counts_and_times(samples, golden):
    """Calls and time of each kernel equal the references."""
    expected: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    for row in reference_rows(samples / "golden" / f"{golden}.kernel_summary.csv"):
        name = row["Kernel name"]
        expected[name][0] += int(row["Kernel duration (µs)_count"])
        expected[name][1] += float(row["Kernel duration (µs)_sum"]) * 1_000
    trace = samples / "kineto" / f"{TRACES[golden]}.json.gz"
    found = pasta.run("kernel_frequency", trace=trace, top=10_000).tables["top"]
    assert set(found["name"]) >= set(expected)
    for name, (calls, time) in expected.items():
        row = found.filter(pl.col("name") == name).to_dicts()[0]
        assert row["calls"] == calls
        assert row["time_ns"] == pytest.approx(time, abs=TOLERANCE_NS)


@pytest.mark.parametrize(
    ("name", "kernels"),
    [("tracelens_h100_bert_small", 60), ("tracelens_mi300_bert_small", 60)],
)
def test_launches_are_attributed_on_amd_as_on_nvidia(samples, name, kernels):
    trace = samples / "kineto" / f"{name}.json.gz"
    facts = pasta.run("operator_time", trace=trace).facts
    assert facts["kernels"] == kernels
    assert facts["kernels_in_operators"] == kernels
    assert facts["device_in_operators_ns"] == facts["device_ns"]


def test_one_graph_launch_owns_its_kernels(samples):
    """One hipGraphLaunch owns 544 of the 555 kernels; each counts once."""
    trace = pasta.open(samples / "kineto" / "tracelens_sglang_decode_hipgraph.json.gz")
    kernels = trace.scan("kernel").select("correlation", "launch_id").collect()
    assert kernels["launch_id"].n_unique() == kernels.height == 555
    assert kernels["correlation"].value_counts()["count"].max() == 544
    facts = pasta.run("operator_time", trace=trace).facts
    assert (facts["kernels"], facts["kernels_in_no_range"]) == (555, 0)
    assert facts["device_in_operators_ns"] == 91_450
    assert facts["device_in_other_ranges_ns"] == facts["device_ns"] - 91_450
