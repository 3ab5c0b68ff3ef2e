"""`device_time` on a timeline whose answer is worked out by hand."""

from __future__ import annotations

import pytest

import pasta


def kernel(launch, ts, dur, device=0, stream=7):
    return {"device": device, "stream": stream, "launch_id": launch, "ts": ts, "dur": dur, "name": f"k{launch}"}  # fmt: skip


def test_parts_by_hand(make_trace):
    """Compute 0-100 and 50-150, NCCL 120-200, a copy 250-300, a kernel 400-401; one unfinished.

    Busy: 0-200, 250-300, 400-401 = 251; span 401; exposed communication 150-200 = 50.
    """
    trace = make_trace(
        kernel=[
            kernel(1, 0, 100),
            kernel(2, 50, 100, stream=8),
            kernel(3, 120, 80, stream=9),
            kernel(4, 400, 1),
            kernel(5, 500, None),
        ],
        copy=[{"device": 0, "ts": 250, "dur": 50, "kind": "HtoD"}],
        collective=[{"device": 0, "launch_id": 3, "ts": 120, "dur": 80, "operation": "allreduce"}],
    )
    row = pasta.run("device_time", trace=trace).tables["devices"].to_dicts()[0]
    assert row["span_ns"] == 401
    assert row["busy_ns"] == 251
    assert row["compute_ns"] == 151
    assert row["communication_ns"] == 80
    assert row["exposed_communication_ns"] == 50
    assert row["copy_ns"] == 50
    assert row["device_idle_ns"] == 150
    assert row["compute_idle_ns"] == 200
    assert row["busy_ns"] + row["device_idle_ns"] == row["span_ns"]


def test_two_streams_busy_at_once_are_100_percent(make_trace):
    trace = make_trace(kernel=[kernel(1, 0, 100), kernel(2, 0, 100, stream=8)])
    report = pasta.run("device_time", trace=trace)
    assert report.tables["devices"]["busy_share"].to_list() == [1.0]
    assert "busy 100.0 % of 100 ns" in report.findings[0]


def test_devices_are_apart(make_trace):
    trace = make_trace(kernel=[kernel(1, 0, 10), kernel(2, 100, 30, device=1)])
    rows = pasta.run("device_time", trace=trace).tables["devices"]
    assert rows.select("device", "busy_ns", "span_ns").rows() == [(0, 10, 10), (1, 30, 30)]


def test_findings_begin_with_the_worst_and_are_few(make_trace):
    """Device n computes 100 ns and waits n ns for communication."""
    kernels, collectives = [], []
    for n in range(10, 80, 10):
        kernels += [kernel(n, 0, 100, device=n), kernel(n + 1, 100, n, device=n)]
        collectives.append({"device": n, "launch_id": n + 1, "ts": 100, "dur": n})
    report = pasta.run("device_time", trace=make_trace(kernel=kernels, collective=collectives))
    waiting = [finding for finding in report.findings if "waits" in finding]
    assert [finding.split()[1] for finding in waiting] == ["70", "60", "50", "40", "30"]
    assert report.tables["devices"]["device"].to_list() == list(range(10, 80, 10))


def test_kernels_without_extent_have_no_share(make_trace):
    row = pasta.run("device_time", trace=make_trace(kernel=[kernel(1, 5, 0), kernel(2, 5, 0)]))
    assert all(devices["busy_share"] is None for devices in row.tables["devices"].to_dicts())


def test_times_near_the_largest_integer_stay_exact(make_trace):
    start = 1_900_000_000_000_000_000
    trace = make_trace(kernel=[kernel(1, start, 1), kernel(2, start + 3, 1)])
    row = pasta.run("device_time", trace=trace).tables["devices"].to_dicts()[0]
    assert (row["busy_ns"], row["device_idle_ns"]) == (2, 2)


def test_the_first_finding_weighs_what_the_device_does_not_work():
    report = pasta.run("device_time")
    (device,) = report.tables["devices"].to_dicts()
    assert report.weights[report.findings[0]] == pytest.approx(1 - device["busy_share"])
