"""`model_flops` on steps whose work is known, and against shapes counted by hand on real profiles."""

from __future__ import annotations

import math

import pytest

import pasta
from pasta.testing import write_trace
from tests.tools.flops_run import PEAKS, step_run


@pytest.mark.parametrize("seed", range(5))
def test_utilisation_of_two_precisions(tmp_path, seed):
    tables, flops = step_run(seed, peaks=PEAKS)
    report = pasta.run("model_flops", trace=write_trace(tmp_path / "t", **tables))
    steps = {row["step"]: row for row in report.tables["steps"].to_dicts()}
    for number, (half, single) in enumerate(flops):
        row = steps[f"step {number}"]
        assert row["flops"] == half + single
        assert row["utilisation_share"] == pytest.approx((half / 1e15 + single / 1e14) / 1e-3)
        assert row["reason"] == ""
    whole = sum(half / 1e15 + single / 1e14 for half, single in flops) / 3e-3
    assert report.tables["ranks"]["utilisation_share"].to_list() == pytest.approx([whole])
    assert "of the peak" in report.findings[0]
    assert len(report.findings) == 1


def test_where_shapes_are_missing_the_share_is_a_lower_bound(tmp_path):
    tables, flops = step_run(1, peaks=PEAKS)
    lost = next(row for row in tables["span"] if "input_shapes" in row)
    m, k, _, n = (int(size) for shape in lost["input_shapes"] for size in shape.split("x"))
    del lost["input_shapes"]
    report = pasta.run("model_flops", trace=write_trace(tmp_path / "t", **tables))
    done = sum(map(sum, flops)) - 2 * m * k * n
    assert report.findings[0].startswith(f"{done:,} floating-point operations")
    assert "of steps are at least " in report.findings[0]
    assert "flop/s)" in report.findings[0]
    assert report.findings[1].startswith(
        "of 24 matrix products, attentions and convolutions 1 has no shapes: its work"
    )


def test_several_devices_and_a_given_peak(tmp_path):
    tables, flops = step_run(1, peaks={}, devices=2)
    trace = write_trace(tmp_path / "t", **tables)
    row = pasta.run("model_flops", trace=trace, peak_flops=1e15).tables["ranks"].row(0, named=True)
    assert row["utilisation_share"] == pytest.approx(sum(map(sum, flops)) / 3e-3 / 2e15)


def test_what_is_unknown_has_a_reason(tmp_path):
    tables, flops = step_run(2, peaks={"peak_flops_bf16": 1e15})
    report = pasta.run("model_flops", trace=write_trace(tmp_path / "peak", **tables))
    row = report.tables["ranks"].row(0, named=True)
    assert (row["flops"], row["utilisation_share"], row["reason"]) == (sum(map(sum, flops)), None, "no peak of fp32")  # fmt: skip
    assert "cannot be told: no peak of fp32 in 3 of 3 steps" in report.findings[0]
    tables, _ = step_run(2, peaks=PEAKS, shapes=False)
    report = pasta.run("model_flops", trace=write_trace(tmp_path / "shapes", **tables))
    row = report.tables["ranks"].row(0, named=True)
    assert (row["flops"], row["utilisation_share"], row["reason"]) == (0, None, "no product with shapes")  # fmt: skip
    assert report.findings[0].startswith("no matrix product, attention or convolution in a step")
    assert report.findings[1].startswith(
        "of 24 matrix products, attentions and convolutions 24 have no shapes"
    )


def test_nothing(tmp_path):
    trace = write_trace(
        tmp_path / "t", kernel=[{"device": 0, "ts": 0, "launch_id": 1, "name": "k"}]
    )
    assert pasta.run("model_flops", trace=trace).findings == ["no kernel with a duration was recorded: of work in steps nothing can be said"]  # fmt: skip


def test_work_outside_of_steps_does_not_count(tmp_path):
    tables, flops = step_run(3, peaks=PEAKS)
    for span in tables["span"]:
        if span["name"] == "step 2":
            span["ts"] += 500_000
    steps = pasta.run("model_flops", trace=write_trace(tmp_path / "t", **tables)).tables["steps"]
    assert sorted(steps["flops"].to_list()) == sorted([0, *map(sum, flops[:2])])


@pytest.mark.parametrize("sample", ["tracelens_h100_bert_small", "tracelens_mi300_bert_small"])
def test_real_profiles(samples, sample):
    """Linear layers are 2 m k n; attention is two such products for each head."""
    trace = pasta.open(samples / "kineto" / f"{sample}.json.gz")
    total = 0
    for name, shapes in trace.scan("span").select("name", "input_shapes").collect().rows():
        if name not in ("aten::addmm", "aten::mm", "aten::bmm", "aten::scaled_dot_product_attention"):  # fmt: skip
            continue
        sizes = [[int(size) for size in shape.split("x")] for shape in shapes if shape]
        if name.endswith("attention"):
            (*batch, rows, width), (*_, keys, _), (*_, value) = sizes[:3]
            total += 2 * math.prod(batch) * rows * keys * (width + value)
        else:
            left, right = sizes[-2:]
            total += 2 * math.prod(left) * right[-1]
    row = pasta.run("model_flops", trace=trace, peak_flops=1e15).tables["ranks"].row(0, named=True)
    assert row["flops"] == total
    assert row["utilisation_share"] == pytest.approx(total / 1e15 / row["step_ns"] * 1e9)
