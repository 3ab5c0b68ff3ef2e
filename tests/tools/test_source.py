"""`source` on samples and launches whose lines are known by hand."""

from __future__ import annotations

import polars as pl
import pytest

import pasta


def stack(number, *places):
    return [
        {"stack_id": number, "depth": depth, "function": function, "file": file, "line": line, "language": "python", "library": ""}
        for depth, (file, line, function) in enumerate(places)
    ]  # fmt: skip


FRAMES = [
    *stack(1, ("a.py", 10, "main"), ("a.py", 3, "loop"), ("", 0, "read")),
    *stack(2, ("a.py", 10, "main"), ("b.py", 7, "fetch")),
    *stack(3, ("a.py", 10, "main"), ("a.py", 5, "fib"), ("a.py", 5, "fib")),
    *stack(4, ("", 0, "start")),
]
SAMPLES = [
    {"tid": 1, "ts": ts, "kind": kind, "stack_id": stack_id, "weight": weight}
    for ts, kind, stack_id, weight in [
        (10, "on_cpu", 1, 40.0),
        (20, "on_cpu", 2, 20.0),
        (30, "on_cpu", 3, 20.0),
        (40, "on_cpu", 3, 10.0),
        (50, "on_cpu", 4, 6.0),
        (60, "on_cpu", 0, 4.0),
        (70, "off_cpu", 2, 999.0),
    ]
]
LINES = [
    {"file": "a.py", "line": line, "text": f"line {line}", "sha256": "00"} for line in range(1, 12)
]


def shares(rows, key="place"):
    return {row[key]: (row["own_share"], row["total_share"]) for row in rows.to_dicts()}


def test_lines_and_files_by_hand(make_trace):
    """`read` has no line: what it takes is its caller's. `fib` calls itself, and counts once."""
    report = pasta.run("source", trace=make_trace(sample=SAMPLES, frame=FRAMES))
    assert shares(report.tables["lines"]) == {
        "a.py:3": pytest.approx((0.4, 0.4)),
        "a.py:5": pytest.approx((0.3, 0.3)),
        "b.py:7": pytest.approx((0.2, 0.2)),
        "(no source line):0": pytest.approx((0.1, 0.1)),
        "a.py:10": pytest.approx((0, 0.9)),
    }
    assert shares(report.tables["files"], "file") == {
        "a.py": pytest.approx((0.7, 0.9)),
        "b.py": pytest.approx((0.2, 0.2)),
        "(no source line)": pytest.approx((0.1, 0.1)),
    }
    assert report.findings == [
        "a.py:3 (loop) has 40.0 % of on_cpu for itself, 40.0 % with what it calls",
        "a.py:5 (fib) has 30.0 % of on_cpu for itself, 30.0 % with what it calls",
        "b.py:7 (fetch) has 20.0 % of on_cpu for itself, 20.0 % with what it calls",
        "10.0 % of on_cpu have no source line: their stacks are unknown, or no frame of them has a line",
    ]


def test_another_weight(make_trace):
    trace = make_trace(sample=SAMPLES, frame=FRAMES)
    report = pasta.run("source", trace=trace, weight="off_cpu")
    assert shares(report.tables["lines"]) == {"b.py:7": (1, 1), "a.py:10": (0, 1)}
    none = pasta.run("source", trace=trace, weight="device")
    assert none.findings == ["nothing that has a call stack is weighed by device: the table below has what there is"]  # fmt: skip
    assert none.tables["of.weights"].select("class", "rows", "placed").rows() == [("off_cpu", 1, 1), ("on_cpu", 6, 5)]  # fmt: skip


def test_device_time_goes_to_the_line_that_launched(make_trace):
    """The operator's Python stack tells before the call's own; a kernel without a call has no line."""
    kernels = [
        {"device": 0, "stream": 7, "ts": ts, "dur": dur, "correlation": number, "launch_id": number, "name": "k"}
        for number, ts, dur in [(1, 100, 60), (2, 200, 30), (9, 300, 10)]
    ]  # fmt: skip
    calls = [
        {"tid": 1, "ts": 50, "dur": 5, "correlation": 1, "name": "cudaLaunchKernel", "stack_id": 4},
        {"tid": 1, "ts": 80, "dur": 5, "correlation": 2, "name": "cudaLaunchKernel", "stack_id": 2},
    ]
    spans = [{"tid": 1, "ts": 45, "dur": 20, "span_id": 1, "level": "operator", "name": "aten::mm", "stack_id": 1}]  # fmt: skip
    trace = make_trace(frame=FRAMES, kernel=kernels, call=calls, span=spans)
    found = shares(pasta.run("source", trace=trace).tables["lines"])
    assert found["a.py:3"] == pytest.approx((0.6, 0.6))
    assert found["b.py:7"] == pytest.approx((0.3, 0.3))
    assert found["(no source line):0"] == pytest.approx((0.1, 0.1))


def test_operators_count_once_at_the_line_that_called_them(make_trace):
    """Of 50 ns of the outer operator 20 are the inner one's, which was called from another line."""
    spans = [
        {"tid": 1, "ts": ts, "dur": dur, "span_id": number, "level": "operator", "name": "aten::x", "stack_id": stack_id}
        for number, ts, dur, stack_id in [(1, 0, 50, 1), (2, 10, 20, 2)]
    ]  # fmt: skip
    report = pasta.run("source", trace=make_trace(frame=FRAMES, span=spans))
    assert shares(report.tables["lines"]) == {
        "a.py:3": pytest.approx((0.6, 0.6)),
        "b.py:7": pytest.approx((0.4, 0.4)),
        "a.py:10": pytest.approx((0, 1)),
    }


def test_packed_lines_are_listed_with_their_heat(make_trace):
    trace = make_trace(sample=SAMPLES, frame=FRAMES, source=LINES)
    report = pasta.run("source", trace=trace)
    chart = next(part for part in report.parts if getattr(part, "kind", "") == "source")
    listed = {row["line"]: row for row in chart.rows.to_dicts()}
    assert len(listed) == 11
    assert listed[3]["own_share"] == pytest.approx(0.4)
    assert listed[1]["own_share"] is None
    assert report.tables["lines"].filter(pl.col("line") == 5)["text"].to_list() == ["line 5"]
