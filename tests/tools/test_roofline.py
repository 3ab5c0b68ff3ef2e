"""`roofline` and `operator_work` on kernels and operators whose work is known."""

from __future__ import annotations

from pathlib import Path

import pytest

import pasta

DEVICE = [{"device": 0, "name": "card", "peak_flops_fp32": 1e12, "peak_bandwidth": 1e11}]


def operator(number, name, ts, end, shapes, **more):
    return {"tid": 1, "ts": ts, "dur": end - ts, "span_id": number, "parent_id": 0, "level": "operator", "name": name, "input_shapes": shapes, "input_types": ["float32"] * len(shapes), **more}  # fmt: skip


SPANS = [
    {"tid": 1, "ts": 0, "dur": 100, "span_id": 1, "parent_id": 0, "level": "module", "name": "net"},
    operator(2, "aten::mm", 10, 30, ["100x10", "10x100"]),
    operator(3, "aten::scaled_dot_product_attention", 40, 60, ["1x1x4x8"] * 3),
    operator(4, "aten::bmm", 45, 50, ["1x4x8", "1x8x4"], parent_id=3),
    operator(5, "aten::add", 70, 80, ["100x100"]),
    operator(6, "aten::mm", 120, 140, ["100x10", "10x100"]),
]


def launch(number, at, dur, name="gemm"):
    return (
        {"device": 0, "launch_id": number, "correlation": number, "ts": at + 500, "dur": dur, "name": name},
        {"tid": 1, "ts": at, "dur": 1, "correlation": number, "name": "cuLaunchKernel"},
    )  # fmt: skip


def counters(number, **values):
    names = {
        "ffma": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
        "fadd": "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
        "bf16": "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
        "read": "dram__bytes_read.sum",
        "write": "dram__bytes_write.sum",
    }
    return [{"device": 0, "launch_id": number, "name": names[name], "value": float(value), "unit": ""} for name, value in values.items()]  # fmt: skip


def points(report, level):
    columns = ["name", "precision", "calls", "flops", "bytes", "time_ns", "bound"]
    return set(report.tables["most"].filter(level=level).select(columns).iter_rows())


def test_operators_of_a_cpu_by_hand(make_trace):
    """An `mm` does 200,000 operations on 4 x (1,000 + 1,000 + 10,000) bytes; `add` is not counted."""
    report = pasta.run("roofline", trace=make_trace(span=SPANS, device=DEVICE))
    assert points(report, "operator") == {
        ("aten::mm", "fp32", 2, 400_000, 96_000, 40, "memory"),
        ("aten::scaled_dot_product_attention", "fp32", 1, 2 * 4 * 4 * 16, 4 * 4 * 32, 20, "memory"),
    }
    assert points(report, "module") == {
        ("net", "fp32", 2, 200_512, 48_512, 40, "memory"),
        ("(in no module)", "fp32", 1, 200_000, 48_000, 20, "memory"),
    }
    assert points(report, "model") == {("(whole trace)", "fp32", 3, 400_512, 96_512, 60, "memory")}


def test_ceilings_are_the_devices_or_the_parameters(make_trace):
    trace = make_trace(span=SPANS, device=DEVICE)
    row = pasta.run("roofline", trace=trace).tables["most"].filter(name="aten::mm").to_dicts()[0]
    assert row["intensity"] == 400 / 96
    assert row["roof"] == pytest.approx(1e11 * 400 / 96)
    assert row["flops_per_second"] == pytest.approx(1e13)
    assert (row["roof_share"], row["ridge"]) == (1.0, 10.0)
    report = pasta.run("roofline", trace=trace, peak_flops=4e13, peak_bandwidth=1e13)
    row = report.tables["most"].filter(name="aten::mm").to_dicts()[0]
    assert (row["roof"], row["bound"]) == (4e13, "compute")
    assert row["roof_share"] == pytest.approx(0.25)


def test_kernels_are_timed_by_what_operators_launched(make_trace):
    kernels = [
        launch(1, 12, 300),
        launch(2, 15, 100, "reduce"),
        launch(3, 41, 50),
        launch(4, 75, 9),
    ]
    tables = {"kernel": [k for k, _ in kernels], "call": [c for _, c in kernels]}
    touches = [{"device": 0, "launch_id": number, "span_id": 0, "space": "global", "object_id": 0, "unique_bytes": 1_000 * number} for number in (1, 2)]  # fmt: skip
    report = pasta.run("roofline", trace=make_trace(span=SPANS, touch=touches, **tables))
    assert points(report, "operator") == {
        ("aten::mm", "fp32", 1, 200_000, 3_000, 400, "unknown"),
        ("aten::mm", "fp32", 1, 200_000, 48_000, None, "unknown"),
        ("aten::scaled_dot_product_attention", "fp32", 1, 512, 512, 50, "unknown"),
    }
    sources = dict(report.tables["most"].filter(name="aten::mm").select("bytes", "source").rows())
    assert sources == {3_000: "estimated, bytes from touches", 48_000: "estimated, bytes from shapes"}  # fmt: skip
    assert all("no ceiling is known" in finding for finding in report.findings)


def test_counters_are_measured(make_trace):
    """Fused operations are two; the precision is that of most of them."""
    kernels = [launch(1, 0, 10)[0], launch(2, 1, 30)[0], launch(3, 2, 5, "copy")[0]]
    metrics = [
        *counters(1, ffma=100, fadd=50, read=30, write=20),
        *counters(2, ffma=10, bf16=5_000, read=10, write=0),
        *counters(3, ffma=0, read=64, write=64),
        {**counters(3, ffma=9)[0], "pc": 16},
    ]
    report = pasta.run("roofline", trace=make_trace(kernel=kernels, metric=metrics, device=DEVICE, span=[]))  # fmt: skip
    assert points(report, "kernel") == {
        ("gemm", "fp32", 1, 250, 50, 10, "memory"),
        ("gemm", "bf16", 1, 5_020, 10, 30, "unknown"),
        ("copy", None, 1, 0, 128, 5, "unknown"),
    }
    assert set(report.tables["most"]["source"]) == {"measured"}


def test_operator_work_counts_what_shapes_do_not_tell(make_trace):
    spans = [*SPANS, operator(9, "aten::convolution", 90, 95, ["1x3x8x8", "4x3x3x3"])]
    report = pasta.run("operator_work", trace=make_trace(span=spans))
    assert (report.facts["calls"], report.facts["untold"], report.facts["flops"]) == (4, 1, 400_512)
    assert any(
        finding.startswith("of 4 matrix products, attentions and convolutions 1 has")
        for finding in report.findings
    )
    touches = [{"launch_id": 0, "span_id": 9, "space": "tensor", "object_id": 1, "unique_written": 4 * 4 * 36, "unique_bytes": 2_000}]  # fmt: skip
    report = pasta.run("operator_work", trace=make_trace("told", span=spans, touch=touches))
    assert report.facts["untold"] == 0
    assert report.facts["flops"] == 400_512 + 2 * 4 * 36 * 27


def test_one_program_does_the_same_work_on_both_shipped_traces():
    """The same model, recorded on a CPU and on a GPU."""
    traces = Path(pasta.__file__).parent / "traces"
    flops = [pasta.run("operator_work", trace=traces / name).facts["flops"] for name in ("gpt_cpu", "gpt_h100")]  # fmt: skip
    assert flops[0] == flops[1] == 2_577_924_096
