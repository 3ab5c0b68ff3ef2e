"""`queue_length` on queues counted by hand, moment by moment, and on planted and clean runs."""

from __future__ import annotations

import pasta
from tests.tools.run_ahead import call, kernel, run_ahead

CALLS = [call(1, 0), call(2, 3), call(3, 20, name="cudaGraphLaunch"), call(0, 50)]
KERNELS = [
    kernel(1, 5, 5),
    kernel(2, 10, 4),
    kernel(3, 24, 2),
    kernel(3, 28, 2),
    kernel(3, 26, 10, stream=8),
    kernel(0, 60, 4, name="late"),
]


def test_queues_by_hand(make_trace):
    """Stream 7: 1 from 0, 2 from 3, 1 from 10, 0 from 14, the graph 20-30, unknown 60-64.

    Stream 8: the graph 20-36. Together: 0 in 14-20 and 36-60.
    """
    spans = [{"tid": 1, "ts": 19, "dur": 5, "span_id": 1, "level": "operator", "name": "aten::mm"}]
    report = pasta.run("queue_length", trace=make_trace(kernel=KERNELS, call=CALLS, span=spans))
    columns = ["queue", "launches", "longest", "span_ns", "empty_ns", "pending_ns"]
    assert report.tables["queues"].select(columns).rows() == [
        ("all streams", 5, 2, 64, 6 + 24, 10 + 11 + 10 + 16 + 4),
        ("stream 7", 4, 2, 64, 6 + 30, 10 + 11 + 10 + 4),
        ("stream 8", 1, 1, 16, 0, 16),
    ]
    assert report.tables["gaps"].select("begin_ts", "dur", "until").rows() == [
        (36, 24, "an unknown call of late"),
        (14, 6, "cudaGraphLaunch of k in aten::mm"),
    ]
    assert report.findings[-1].startswith("of 6 kernels and copies 5 have a call by correlation")
    chart = next(part for part in report.parts if getattr(part, "kind", "") == "line")
    assert chart.roles["x"] == "ts"  # whose axis tells times


def test_a_full_queue_and_the_calls_made_then(make_trace):
    """Ten launches from 0 to 9 and kernels of 100 each: ten pend in 9-110; of them one is called then."""
    calls = [call(n + 1, n, 1 if n < 9 else 90) for n in range(10)]
    kernels = [kernel(n + 1, 10 + 100 * n, 100) for n in range(10)]
    report = pasta.run("queue_length", trace=make_trace(kernel=kernels, call=calls), full=10)
    row = report.tables["queues"].to_dicts()[1]
    assert (row["full_ns"], row["full_launches"], row["full_call_ns"]) == (101, 1, 90)
    assert row["span_ns"] == 1010
    assert any(text.startswith("stream 7, device 0, rank 0: 10 or more launches are pending for 101 ns") for text in report.findings)  # fmt: skip


def test_without_calls_the_host_is_not_blamed(make_trace):
    kernels = [kernel(0, 5, 5), kernel(0, 90, 5)]
    report = pasta.run("queue_length", trace=make_trace("none", kernel=kernels))
    assert [text.split(";")[0] for text in report.findings] == ["of 2 kernels and copies 0 have a call by correlation"]  # fmt: skip
    kernels[0]["correlation"] = 1
    report = pasta.run("queue_length", trace=make_trace("some", kernel=kernels, call=[call(1, 1)]))
    assert "of 2 launches 1 has a call, so that the host may be late for less time" in report.findings[0]  # fmt: skip


def test_streams_are_apart_by_device_and_process(make_trace):
    kernels = [kernel(1, 5, 5), {**kernel(2, 5, 5), "device": 1}, {**kernel(1, 6, 5), "rank": 1, "pid": 2}]  # fmt: skip
    calls = [call(1, 0), call(2, 1), {**call(1, 2), "rank": 1, "pid": 2}]
    report = pasta.run("queue_length", trace=make_trace(kernel=kernels, call=calls))
    rows = report.tables["queues"].select("rank", "device", "span_ns").rows()
    assert rows == [(0, 0, 10), (0, 0, 10), (0, 1, 9), (0, 1, 9), (1, 0, 9), (1, 0, 9)]


SEEDS = 100


def test_nothing_is_found_in_clean_runs(make_trace):
    traces = [make_trace(f"{seed}", **run_ahead(seed)) for seed in range(SEEDS)]
    assert pasta.run("queue_length", trace=traces).findings == []


def test_a_late_host_is_found_in_every_seed(make_trace):
    traces = [make_trace(f"{seed}", **run_ahead(seed, late=20 + seed % 80)) for seed in range(SEEDS)]  # fmt: skip
    report = pasta.run("queue_length", trace=traces, top=10**6)
    longest = report.tables["gaps"].sort("dur", descending=True).unique("trace", keep="first")
    assert set(longest["dur"]) == {500_000}
    assert set(longest["until"]) == {"cudaLaunchKernel of victim"}
    assert longest.height == SEEDS
    assert all("device 0 of rank 0: nothing is launched and unfinished for 500.00 us" in text for text in report.findings[:5])  # fmt: skip
    assert report.findings[6].endswith("lasts until cudaLaunchKernel of victim")
