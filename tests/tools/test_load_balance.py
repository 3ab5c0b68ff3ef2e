"""`load_balance` on runs with planted loads, on clean ones and on rows worked out by hand."""

from __future__ import annotations

import pytest

import pasta
from tests.tools.ranks_run import ranks_run


def kernel(rank, launch, ts, dur, name="gemm"):
    own = {"rank": rank, "pid": 50 + rank, "device": 0, "launch_id": launch, "ts": ts, "dur": dur}
    return {**own, "name": name, "grid_x": 8, "grid_y": 1, "grid_z": 1, "block_x": 32, "block_y": 1, "block_z": 1}  # fmt: skip


def test_by_hand(make_trace):
    """Three ranks: two gemms of 100 each; the second takes 130 each; the third has one of 40 more.

    Two streams of the third overlap by 20. At the usual speed all three have 200, 200 and 240.
    """
    trace = make_trace(
        kernel=[
            kernel(0, 1, 0, 100),
            kernel(0, 2, 100, 100),
            kernel(1, 1, 0, 130),
            kernel(1, 2, 130, 130),
            kernel(2, 1, 0, 100),
            kernel(2, 2, 100, 100),
            kernel(2, 3, 180, 40, name="gelu"),
        ],
        copy=[{"rank": 0, "pid": 50, "device": 0, "ts": 0, "dur": 1, "bytes": 64, "kind": "HtoD"}],
    )
    report = pasta.run("load_balance", trace=trace)
    ranks = report.tables["ranks"].sort("rank")
    assert ranks["busy_ns"].to_list() == [200, 260, 220]
    assert ranks["compute_ns"].to_list() == [200, 260, 240]
    assert ranks["kernels"].to_list() == [2, 2, 3]
    assert ranks["slower_ns"].to_list() == [0, 60, 0]
    assert ranks["more_ns"].to_list() == [0, 0, 40]
    assert ranks["copy_bytes"].to_list() == [64, None, None]
    assert report.facts["longest_ns"] == 260
    assert report.facts["time_imbalance"] == pytest.approx(260 * 3 / 680)
    assert report.findings[0].startswith(
        "rank 1 computes for 260 ns, 1.147 times the mean of 3 devices"
    )
    assert "its kernels take 30.0 % longer" in report.findings[0]
    assert any(each.startswith("rank 2 launches 3 kernels") for each in report.findings)


MORE = "it has 4"
SLOW = "at the same launches its kernels take "


@pytest.mark.parametrize(("planted", "share", "text"), [({"more": 1}, "more_share", MORE), ({"slow": 1.1}, "slower_share", SLOW)])  # fmt: skip
def test_more_work_is_told_from_slow_kernels_in_every_seed(make_trace, planted, share, text):
    ((cause, size),) = planted.items()
    traces = [make_trace(f"{seed}", **ranks_run(seed, steps=4, **{cause: {seed % 8: size}})) for seed in range(100)]  # fmt: skip
    report = pasta.run("load_balance", trace=traces)
    longest = report.tables["ranks"].sort("busy_ns", descending=True).unique("trace", keep="first")
    assert (longest["rank"] == longest["trace"].cast(int) % 8).all()
    expected = {"more_share": 0.42, "slower_share": 0.1}[share]
    assert longest[share].is_between(0.8 * expected, 1.2 * expected).all()
    assert all(" computes for " in found and text in found for found in report.findings[:5])
    assert len({found.split(":")[0] for found in report.findings[:5]}) == 5
    assert report.findings[5] == "... and 95 more of this kind"


def test_each_device_of_each_trace_that_stands_out_is_told(make_trace):
    """Of eight ranks two have 42 % more to do; a trace's findings do not hide those of the next."""
    traces = [make_trace(f"t{seed}", **ranks_run(seed, steps=4, more={2: 1, 5: 1})) for seed in range(2)]  # fmt: skip
    found = pasta.run("load_balance", trace=traces).findings
    places = {f"t{trace}: rank {rank} " for trace in range(2) for rank in (2, 5)}
    longest = [each for each in found if " computes for " in each]
    launching = [each for each in found if " kernels, " in each]
    assert {place for place in places for each in longest if each.startswith(place)} == places
    assert {place for place in places for each in launching if each.startswith(place)} == places
    assert len(longest) == len(launching) == len(places)


def test_clean_runs_are_even(make_trace):
    traces = [make_trace(f"t{seed}", **ranks_run(seed, steps=5)) for seed in range(100)]
    assert pasta.run("load_balance", trace=traces).findings == []


def test_flops_and_communicated_bytes_are_compared(make_trace):
    """The second rank multiplies twice as large and sends three times as much."""
    spans, kernels, collectives = [], [], []
    for rank, size in ((0, 8), (1, 16)):
        own = {"rank": rank, "pid": 50 + rank}
        shapes = {"input_shapes": ["4x4", f"4x{size}"], "input_types": ["float", "float"]}
        spans.append({**own, **shapes, "level": "operator", "name": "aten::mm", "tid": 1, "span_id": 1, "ts": 0, "dur": 5})  # fmt: skip
        kernels += [kernel(rank, 1, 0, 100), kernel(rank, 2, 100, 10, name="ncclDevKernel")]
        collectives.append({**own, "device": 0, "launch_id": 2, "ts": 100, "dur": 10, "bytes_in": 100 * (1 + 2 * rank)})  # fmt: skip
    trace = make_trace(span=spans, kernel=kernels, collective=collectives)
    report = pasta.run("load_balance", trace=trace)
    ranks = report.tables["ranks"].sort("rank")
    assert ranks["flops"].to_list() == [2 * 4 * 4 * 8, 2 * 4 * 4 * 16]
    assert ranks["communication_bytes"].to_list() == [100, 300]
    assert ranks["busy_ns"].to_list() == [100, 100]
    assert any(
        each.startswith("rank 1 has 512 floating-point operations") for each in report.findings
    )
    assert any(each.startswith("rank 1 communicates 300 B") for each in report.findings)


@pytest.mark.parametrize("traces", [1, 2])
def test_of_one_device_in_each_trace_nothing_is_said(make_trace, traces):
    """As where the files of a run's ranks are given one by one."""
    given = [make_trace(f"{rank}", kernel=[kernel(rank, 1, 0, 5 + rank)]) for rank in range(traces)]
    assert pasta.run("load_balance", trace=given).findings == [
        "of fewer than two devices that compute nothing can be said: import the files of all ranks together"
    ]
