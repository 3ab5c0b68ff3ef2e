"""`launch_overhead` on launches whose gaps are cut by hand, on a planted slow launch and on clean runs."""

from __future__ import annotations

import random

import polars as pl

import pasta


def call(correlation, ts, dur, name="cudaLaunchKernel"):
    return {"tid": 1, "ts": ts, "dur": dur, "correlation": correlation, "name": name}


def kernel(correlation, ts, dur, name="k", stream=7):
    return {"device": 0, "stream": stream, "ts": ts, "dur": dur, "correlation": correlation, "name": name}  # fmt: skip


CALLS = [
    call(1, 0, 5),
    call(2, 12, 5),
    call(3, 30, 10),
    call(4, 37, 2, "cudaGraphLaunch"),
    call(0, 52, 1),
]
KERNELS = [
    kernel(1, 10, 10),
    kernel(2, 23, 2),
    kernel(3, 35, 1, stream=8),
    kernel(4, 42, 2, "a"),
    kernel(4, 46, 4, "b"),
    kernel(0, 60, 1),
]


def test_gaps_by_hand(make_trace):
    """Gaps: 20-23 queued; 25-35 late to 30; 36-42 late to 37, called to 39; 44-46 in the graph; 50-60."""
    report = pasta.run("launch_overhead", trace=make_trace(kernel=KERNELS, call=CALLS))
    device = report.tables["waiting"].to_dicts()[0]
    assert device["idle_ns"] == 31
    assert device["late_ns"] == 5 + 1
    assert device["calling_ns"] == 5 + 2
    assert device["starting_ns"] == 3 + 3 + 2
    assert device["unknown_ns"] == 10


def test_kernels_by_hand(make_trace):
    """The graph is called once, for two kernels; of its delay of 5 the device waits 5, and 2 within."""
    spans = [{"tid": 1, "ts": 29, "dur": 5, "span_id": 1, "level": "operator", "name": "aten::mm"}]
    trace = make_trace(kernel=KERNELS, call=CALLS, span=spans)
    report = pasta.run("launch_overhead", trace=trace)
    columns = ["name", "launches", "works", "call_ns", "median_delay_ns", "device_ns", "short", "lost_ns"]  # fmt: skip
    assert report.tables["worst"].select(columns).rows() == [
        ("k", 3, 3, 20, 10.0, 13, 2, 8),
        ("several, by cudaGraphLaunch", 1, 2, 2, 5.0, 6, 0, 7),
    ]
    assert dict(report.tables["operators"].select("operator", "lost_ns").rows()) == {None: 10, "aten::mm": 5}  # fmt: skip
    assert "of 6 kernels and copies 5 have a call by correlation; nothing is said of launching the others" in report.findings  # fmt: skip


def test_a_call_after_its_work_tells_nothing(make_trace):
    trace = make_trace(kernel=[kernel(1, 0, 5), kernel(2, 9, 5)], call=[call(1, 1, 2), call(2, 10, 2)])  # fmt: skip
    report = pasta.run("launch_overhead", trace=trace)
    assert report.tables["waiting"].select("idle_ns", "unknown_ns").rows() == [(4, 4)]
    assert report.findings[0] == "no kernel and no copy with a duration has a call: of launching nothing can be said"  # fmt: skip


def test_work_that_begins_together_ends_a_gap_once(make_trace):
    """Two streams begin at 20; the gap from 10 is that of the call with the lower id."""
    kernels = [kernel(1, 0, 10), kernel(2, 20, 5), kernel(3, 20, 5, stream=8)]
    calls = [call(1, -5, 2), call(2, 12, 2), call(3, 15, 2)]
    report = pasta.run("launch_overhead", trace=make_trace(kernel=kernels, call=calls))
    parts = report.tables["waiting"].select("idle_ns", "late_ns", "calling_ns", "starting_ns")
    assert parts.rows() == [(10, 2, 2, 6)]
    assert report.tables["worst"]["lost_ns"].sum() == 8


def queued_run(seed, slow=None):
    """A hundred kernels back to back, each called long before; `slow` is called late, for 300 us."""
    noise = random.Random(seed)
    kernels, calls, at, free = [], [], 0, 10**6
    for n in range(1, 101):
        length = noise.randrange(50_000, 150_000)
        lasts = 300_000 if n == slow else noise.randrange(4_000, 6_000)
        at = free - 1_000 if n == slow else at
        calls.append(call(n, at, lasts))
        at += lasts
        begin = max(free, at)
        kernels.append(kernel(n, begin, length, f"victim {seed}" if n == slow else f"k{n % 5}"))
        free = begin + length
    return {"kernel": kernels, "call": calls}


SEEDS = 100


def test_nothing_is_found_in_clean_runs(make_trace):
    traces = [make_trace(f"{seed}", **queued_run(seed)) for seed in range(SEEDS)]
    assert pasta.run("launch_overhead", trace=traces).findings == []


def test_a_slow_launch_is_named_in_every_seed(make_trace):
    traces = [make_trace(f"{seed}", **queued_run(seed, slow=20 + seed % 80)) for seed in range(SEEDS)]  # fmt: skip
    report = pasta.run("launch_overhead", trace=traces, top=10**6)
    losing = report.tables["worst"].filter(pl.col("lost_ns") > 0)
    assert set(losing["name"]) == {f"victim {seed}" for seed in range(SEEDS)}
    assert set(losing["lost_ns"]) == {299_000}
    assert losing.height == SEEDS
    assert "victim" in report.findings[-1]
    assert " loses most: the device waits 299.00 us for it" in report.findings[-1]
