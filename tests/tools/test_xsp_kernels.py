"""The analyses of kernels and of whole models (A1, A8 to A10, A12, A14, A15 of XSP) with known counters."""

from __future__ import annotations

import pytest

import pasta
from pasta import api
from pasta.testing import write_trace
from pasta.tools.shipped import SHIPPED_TRACE
from tests.tools.layers_run import Rows, layers_run

DEVICE = {"device": 0, "peak_flops_fp32": 1e12, "peak_flops_fp16": 4e12, "peak_bandwidth": 1e11}
FMA, ADD = (f"smsp__sass_thread_inst_executed_op_f{kind}_pred_on.sum" for kind in ("fma", "add"))
TENSOR = "sm__ops_path_tensor_src_fp16_dst_fp32.sum"
READ, WRITE = "dram__bytes_read.sum", "dram__bytes_write.sum"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
COUNTERS = {
    "gemm": {FMA: 5_000, READ: 60, WRITE: 40, OCCUPANCY: 50},
    "bias": {ADD: 100, READ: 600, WRITE: 400, OCCUPANCY: 100},
    "gemm_back": {TENSOR: 8_000, ADD: 1_000, READ: 300, WRITE: 200},
}


def counted_run() -> dict[str, Rows]:
    """Return the run with counters of each launch but those of `fill`."""
    tables = layers_run()
    tables["device"] = [DEVICE]
    tables["metric"] = [
        {"launch_id": kernel["launch_id"], "device": 0, "name": name, "value": float(value), "pc": None}
        for kernel in tables["kernel"]
        for name, value in COUNTERS.get(str(kernel["name"]), {}).items()
    ]  # fmt: skip
    return tables


def test_a8_keeps_two_calls_of_a_kernel_in_a_layer_apart(make_trace):
    kernels = pasta.run("xsp/a8", trace=make_trace(**counted_run())).tables["kernels"]
    found = kernels.sort("index", "position").select("index", "name", "n", "kernel_ns", "flops", "bytes", "precision", "bound").rows()  # fmt: skip
    assert found == [
        (-1, "fill", 3, 50, None, None, None, None),
        (1, "gemm", 3, 300, 10_000, 100, "fp32", "compute"),
        (1, "gemm", 3, 400, 10_000, 100, "fp32", "compute"),
        (3, "gemm", 3, 300, 10_000, 100, "fp32", "compute"),
        (3, "bias", 3, 400, 100, 1_000, "fp32", "memory"),
        (4, "gemm_back", 3, 200, 9_000, 500, "fp16", "memory"),
        (5, "gemm_back", 3, 250, 9_000, 500, "fp16", "memory"),
    ]
    rows = {(row["index"], row["kernel_ns"]): row for row in kernels.to_dicts()}
    assert rows[1, 400]["flops_per_second"] == pytest.approx(10_000 / 400e-9)
    assert rows[1, 400]["intensity"] == 100
    assert (rows[1, 400]["read_bytes"], rows[1, 400]["written_bytes"]) == (60, 40)
    assert (rows[3, 400]["occupancy_share"], rows[4, 200]["occupancy_share"]) == (1, None)
    assert rows[1, 300]["flops_from"] == rows[1, 300]["bytes_from"] == "counters"


def test_a9_draws_kernels_and_ceilings(make_trace):
    report = pasta.run("xsp/a9", trace=make_trace(**counted_run()))
    assert report.findings[:2] == [
        "compute-bound kernels of a step: 3, with 54.1 % of the time of those whose flops and bytes are known",
        "memory-bound kernels of a step: 3, with 45.9 % of the time of those whose flops and bytes are known",
    ]
    drawn = next(part.rows for part in report.parts if "path" in part.rows.columns)
    ridges = drawn.filter(drawn["path"].is_not_null())
    assert set(ridges["path"]) == {"t: ceiling of fp32", "t: ceiling of fp16"}
    assert (10.0, 1e12) in ridges.select("intensity", "flops_per_second").rows()
    assert (40.0, 4e12) in ridges.select("intensity", "flops_per_second").rows()


def test_a10_counts_from_one_and_adds_up(make_trace):
    names = pasta.run("xsp/a10", trace=make_trace(**counted_run())).tables["longest"]
    rows = {row["name"]: row for row in names.to_dicts()}
    assert names["name"][0] == "gemm"
    gemm = rows["gemm"]
    assert (gemm["calls"], gemm["layers"], gemm["kernel_ns"], gemm["flops"]) == (3, 2, 1000, 30_000)
    assert gemm["model_share"] == pytest.approx(900 / 9_000)  # twice at once for 100 ns
    assert gemm["occupancy_share"] == pytest.approx(0.5)
    assert names["kernel_share"].sum() == pytest.approx(1)
    assert rows["gemm_back"]["bound"] == "memory"


def test_a12_and_a14_add_up_what_kernels_of_a_layer_do(make_trace):
    trace = make_trace(**counted_run())
    report = pasta.run("xsp/a12", trace=trace)
    layers = {row["index"]: row for row in report.tables["layers"].to_dicts()}
    assert (layers[3]["flops"], layers[3]["bytes"]) == (10_100, 1_100)
    assert layers[3]["occupancy_share"] == pytest.approx((300 * 0.5 + 400 * 1.0) / 700)
    assert sorted(layers) == [1, 3, 4, 5]
    precisions = report.tables["precisions"].select("phase", "precision", "flops").rows()
    assert precisions == [
        ("backward", "fp16", 3 * 2 * 8_000),
        ("backward", "fp32", 3 * 2 * 1_000),
        ("forward", "fp32", 3 * (3 * 10_000 + 100)),
    ]
    points = pasta.run("xsp/a14", trace=trace).tables["layers"].sort("index")
    assert points.select("index", "bound").rows() == [
        (1, "compute"),
        (3, "memory"),
        (4, "memory"),
        (5, "memory"),
    ]
    assert points.filter(index=1)["flops_per_second"].item() == pytest.approx(20_000 / 600e-9)


def test_a15_tells_a_model_as_a_whole(make_trace):
    report = pasta.run("xsp/a15", runs={"b8": make_trace(**counted_run())})
    (model,) = report.tables["models"].to_dicts()
    assert (model["batch"], model["n"], model["latency_ns"], model["kernels"]) == (8, 3, 9_000, 7)
    assert (model["kernel_ns"], model["gpu_share"]) == (1_800, pytest.approx(0.2))
    assert (model["flops"], model["bytes"]) == (48_100, 2_300)
    assert model["throughput"] == pytest.approx(8 / 9e-6)
    assert model["bound"] == "compute"


def test_amd_counters_are_read_too(make_trace):
    tables = layers_run(1)
    tables["device"] = [DEVICE]
    names = {
        "SQ_INSTS_VALU_MFMA_MOPS_F16": 2,  # of 512 flops
        "SQ_INSTS_VALU_FMA_F32": 3,  # of 64 lanes, two flops each
        "SQ_INSTS_VALU_ADD_F64": 1,
        "FETCH_SIZE": 2,  # KiB
        "WRITE_SIZE": 1,
        "OccupancyPercent": 25,
    }
    tables["metric"] = [
        {"launch_id": tables["kernel"][0]["launch_id"], "device": 0, "name": name, "value": float(value)}
        for name, value in names.items()
    ]  # fmt: skip
    kernels = pasta.run("xsp/a8", trace=make_trace(**tables)).tables["kernels"]
    (row,) = kernels.filter(kernels["flops"] > 0).to_dicts()
    assert row["flops"] == 2 * 512 + 3 * 128 + 64
    assert (row["read_bytes"], row["written_bytes"], row["occupancy_share"]) == (2048, 1024, 0.25)
    assert row["precision"] == "fp16"


@pytest.mark.parametrize("tool", ["xsp/a8", "xsp/a9", "xsp/a11", "xsp/a12", "xsp/a14", "xsp/a15"])
def test_without_counters_it_says_what_is_missing(make_trace, tool):
    report = pasta.run(tool, trace=make_trace(**layers_run()))
    assert any(finding.startswith("flops, bytes of memory, occupancy of kernels were not recorded:") for finding in report.findings)  # fmt: skip
    for rows in report.tables.values():
        for column in {"flops", "bytes", "bound"} & set(rows.columns):
            assert rows[column].null_count() == rows.height


def scaled(folder, factor: int, steps: int = 5):
    tables = layers_run(steps)
    for rows in tables.values():
        for row in rows:
            row.update(ts=row["ts"] * factor, dur=row["dur"] * factor)
    return write_trace(folder, **tables)


def test_a1_finds_the_smallest_batch_whose_double_is_no_better(tmp_path):
    runs = {
        f"net_b{batch}": scaled(tmp_path / str(batch), factor)
        for batch, factor in {1: 10, 2: 11, 4: 12, 8: 23, 16: 46}.items()
    }
    report = pasta.run("xsp/a1", runs=runs)
    table = report.tables["runs"].select("run", "batch", "latency_ns", "n").rows()
    assert table[0] == ("net_b1", 1, 90_000, 5)
    gains = dict(report.tables["runs"].select("batch", "gain_share").rows())
    assert gains[2] == pytest.approx(2 * 11 / 12 - 1)
    assert gains[16] is None
    assert report.findings[0].startswith("batch size 4 is optimal (net_b): twice as many raise throughput by 4.3 %")  # fmt: skip
    assert "one input at a time takes 90.00 us (net_b1)" in report.findings


def test_a1_says_when_throughput_still_rises(tmp_path):
    runs = {f"b{batch}": scaled(tmp_path / str(batch), 10) for batch in (1, 2)}
    findings = pasta.run("xsp/a1", runs=runs).findings
    assert findings[0] == "throughput still rises (b): by 100.0 % from batch size 1 to 2, the largest pair that was run"  # fmt: skip


def test_runs_of_one_batch_size_are_one_row(tmp_path):
    runs = {"b4.1": scaled(tmp_path / "1", 10), "b4.2": scaled(tmp_path / "2", 20)}
    (row,) = pasta.run("xsp/a1", runs=runs).tables["runs"].to_dicts()
    assert (row["run"], row["batch"], row["n"]) == ("b4", 4, 10)
    assert row["latency_ns"] == 135_000  # three of five steps of each are kept


def test_a_name_that_ends_in_a_number_is_no_batch_size():
    (row,) = pasta.run("xsp/a1", trace=SHIPPED_TRACE).tables["runs"].to_dicts()
    assert (row["run"], row["batch"], row["throughput"]) == ("gpt_h100", None, None)
    (row,) = pasta.run("xsp/a1", trace=SHIPPED_TRACE, batch=16).tables["runs"].to_dicts()
    assert row["throughput"] == pytest.approx(16e9 / row["latency_ns"])


def test_all_fifteen_are_in_one_report(make_trace):
    reports, left_out = api.report([make_trace(**counted_run())], tools=["xsp"])
    assert [report.tool for report in reports] == [f"xsp_a{number}" for number in range(1, 16)]
    assert left_out == {}
    for report in reports:
        assert report.findings
        alone = pasta.run(report.tool.replace("_", "/"), trace=make_trace(report.tool, **counted_run()))  # fmt: skip
        assert [part.rows.height for part in report.parts] == [p.rows.height for p in alone.parts]
    named, _ = api.report(runs={"b1": make_trace("b1", **layers_run())}, tools=["xsp/a1", "diff"])
    assert named[0].tables["runs"]["batch"].to_list() == [1]
