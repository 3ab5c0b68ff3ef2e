"""`step_time` on steps by hand, and slow ones among noise."""

from __future__ import annotations

import numpy as np
import pytest

import pasta
from pasta.testing import write_trace


def step(number, ts, dur, **columns):
    name = f"ProfilerStep#{number}"
    return {"level": "step", "tid": 1, "ts": ts, "dur": dur, "span_id": number, "name": name, **columns}  # fmt: skip


def noisy(seed, longer=None, noise=0.03, steps=30):
    """Return steps of 1 ms on two ranks, one after another; `longer` is (rank, step) -> ns more."""
    random = np.random.default_rng(seed)
    spans = []
    for rank in (0, 1):
        now = 0
        for number in range(1, steps + 1):
            dur = round(1_000_000 * (1 + noise * random.standard_normal()))
            dur += (longer or {}).get((rank, number), 0)
            spans.append(step(number, now, dur, rank=rank))
            now += dur
    return spans


def test_steps_by_hand(make_trace):
    """Steps of 100, 110, 90 and 200 ns with 50 ns between the last two; 2 is cut where 3 begins.

    Their median is 100 (of 90, 100, 100, 200) and the deviations 0, 0, 10, 100, their median 5.
    """
    trace = make_trace(
        span=[
            step(1, 0, 100),
            step(2, 100, 110),
            step(3, 200, 90),
            step(4, 340, 200),
            step(5, 350, 20, name="within 4"),
            step(6, 600, None),
            {"level": "operator", "tid": 1, "ts": 0, "dur": 900, "span_id": 7, "name": "aten::mm"},
        ]
    )
    report = pasta.run("step_time", trace=trace)
    steps = report.tables["steps"]
    assert steps.select("step", "step_ns").rows() == [
        ("ProfilerStep#1", 100),
        ("ProfilerStep#2", 100),
        ("ProfilerStep#3", 90),
        ("ProfilerStep#4", 200),
    ]
    (rank,) = report.tables["ranks"].to_dicts()
    assert rank["usual_ns"] == 100
    assert rank["scatter_ns"] == 5
    assert (rank["shortest_ns"], rank["longest_ns"]) == (90, 200)
    assert rank["between_ns"] == 50 + 60
    assert report.findings == [
        "a step takes 100 ns, the median of 1 process with 4 steps in all",
        "ProfilerStep#4 of rank 0 takes 200 ns, 100 ns more than the median of its rank",
        "slow steps cost 100 ns, 20.4 % of the time of all steps",
        "110 ns lie between steps, 18.3 % of the time from the first to the last",
    ]


def test_nothing_is_found_in_clean_runs(tmp_path):
    traces = [write_trace(tmp_path / str(seed), span=noisy(seed)) for seed in range(100)]
    report = pasta.run("step_time", trace=traces)
    assert len(report.findings) == 1
    assert report.tables["slow"].is_empty()
    assert report.tables["steps"].height == 100 * 2 * 30


@pytest.mark.parametrize("longer", [350_000, 3_000_000])
def test_slow_steps_are_found_among_noise(tmp_path, longer):
    planted = {(1, 4): longer, (0, 30): longer}
    traces = [write_trace(tmp_path / str(seed), span=noisy(seed, planted)) for seed in range(100)]
    report = pasta.run("step_time", trace=traces)
    slow = report.tables["slow"].select("rank", "number")
    assert slow.height == 100 * 2
    assert set(slow.rows()) == set(planted)


def test_a_trace_without_steps_says_how_to_record_them(make_trace):
    trace = make_trace(span=[{"level": "operator", "tid": 1, "ts": 0, "dur": 9, "span_id": 7, "name": "a"}])  # fmt: skip
    (finding,) = pasta.run("step_time", trace=trace).findings
    assert finding.startswith("no step that takes time is recorded")
