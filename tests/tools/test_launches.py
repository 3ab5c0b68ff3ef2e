"""`launches` on calls and spans of two threads."""

from __future__ import annotations

import polars as pl

import pasta


def span(number, level, name, ts, dur, *, tid=1, **more):
    return {"span_id": number, "level": level, "name": name, "ts": ts, "dur": dur, "tid": tid, **more}  # fmt: skip


SPANS = [
    span(1, "phase", "forward", 0, 100),
    span(2, "module", "Linear", 10, 50),
    span(3, "operator", "aten::linear", 20, 30),
    span(4, "operator", "aten::addmm", 25, 10, stack_id=8),
    span(5, "operator", "AddmmBackward0", 0, 99, tid=2),
]
CALLS = [
    {"tid": 1, "ts": 30, "dur": 2, "correlation": 1, "name": "cuLaunchKernel", "stack_id": 6},
    {"tid": 1, "ts": 35, "dur": 2, "correlation": 2, "name": "cuLaunchKernel"},
    {"tid": 2, "ts": 30, "dur": 2, "correlation": 3, "name": "cuLaunchKernel"},
    {"tid": 1, "ts": 26, "dur": 2, "correlation": 4, "name": "cuLaunchKernel", "stack_id": 0},
]
KERNELS = [
    {"device": 0, "launch_id": launch, "ts": 200 + launch, "dur": 5, "correlation": correlation, "name": "k"}
    for launch, correlation in ((1, 1), (2, 2), (3, 3), (4, 4), (5, 0))
]  # fmt: skip


def launches(trace, tmp_path):
    pasta.run("launches", trace=trace, out=tmp_path / "o")
    return pl.read_parquet(next((tmp_path / "o").rglob("launches*.parquet"))).sort("launch_id")


def test_a_launch_belongs_to_what_is_open_on_its_thread(make_trace, tmp_path):
    rows = launches(make_trace(kernel=KERNELS, call=CALLS, span=SPANS), tmp_path)
    assert rows.select("launch_id", "operator", "module", "phase").rows() == [
        (1, "aten::addmm", "Linear", "forward"),
        (2, "aten::linear", "Linear", "forward"),
        (3, "AddmmBackward0", None, None),
        (4, "aten::addmm", "Linear", "forward"),
        (5, None, None, None),
    ]


def test_the_stack_is_that_of_the_call_or_else_of_the_operator(make_trace, tmp_path):
    rows = launches(make_trace(kernel=KERNELS, call=CALLS, span=SPANS), tmp_path)
    assert rows["stack_id"].to_list() == [6, 0, 0, 8, 0]
    assert rows["operator_stack"].to_list() == [8, 0, 0, 8, 0]


def test_launches_are_counted_by_operator(make_trace):
    report = pasta.run("launches", trace=make_trace(kernel=KERNELS, call=CALLS, span=SPANS))
    assert report.findings == ["of 5 launches 4 were made in an operator, 3 in a module"]
    assert report.tables["most"].rows()[0] == ("aten::addmm", "k", 2, 10)


def test_without_launches(make_trace):
    report = pasta.run("launches", trace=make_trace(span=SPANS))
    assert report.findings == ["no kernel launch was recorded"]
