"""`operator_time`: self times, device time through calls, and what belongs to nobody."""

from __future__ import annotations

import pasta


def span(number, name, ts, dur, level="operator", *, tid=1):
    return {"tid": tid, "ts": ts, "dur": dur, "span_id": number, "level": level, "name": name}


def call(correlation, ts, tid=1):
    return {"tid": tid, "ts": ts, "dur": 1, "correlation": correlation, "name": "launch"}


def kernel(launch, correlation, dur):
    return {"device": 0, "launch_id": launch, "ts": 1_000, "dur": dur, "correlation": correlation, "name": f"k{launch}"}  # fmt: skip


SPANS = [
    span(1, "linear", 0, 100),
    span(2, "module.py(3): forward", 5, 60, "function"),
    span(3, "addmm", 10, 40),
    span(4, "linear", 200, 50),
    span(5, "relu", 0, 10, tid=2),
]
CALLS = [call(7, 20), call(8, 90), call(9, 5, tid=2), call(10, 150)]
KERNELS = [
    kernel(1, 7, 5),
    kernel(2, 7, 6),
    kernel(3, 8, 70),
    kernel(4, 9, 800),
    kernel(5, 10, 9_000),
    kernel(6, 0, 20_000),
    kernel(7, 99, 40_000),
]


def report_of(make_trace):
    return pasta.run("operator_time", trace=make_trace(span=SPANS, call=CALLS, kernel=KERNELS))


def test_paths_by_hand(make_trace):
    rows = report_of(make_trace).tables["on_device"]
    found = {row["path"]: row for row in rows.to_dicts()}
    assert set(found) == {"linear", "linear > addmm", "relu"}
    linear, addmm, relu = found["linear"], found["linear > addmm"], found["relu"]
    assert (linear["calls"], linear["host_ns"], linear["host_self_ns"]) == (2, 150, 110)
    assert (linear["device_ns"], linear["device_self_ns"], linear["kernels"]) == (81, 70, 3)
    assert (addmm["host_self_ns"], addmm["device_self_ns"], addmm["kernels"]) == (40, 11, 2)
    assert (relu["host_ns"], relu["device_ns"]) == (10, 800)


def test_one_call_owns_many_kernels_and_zero_joins_nothing(make_trace):
    facts = report_of(make_trace).facts
    assert facts["device_ns"] == 5 + 6 + 70 + 800 + 9_000 + 20_000 + 40_000
    assert facts["attributed_ns"] == 5 + 6 + 70 + 800
    assert (facts["kernels"], facts["without_operator"]) == (7, 3)


def test_without_kernels_host_times_are_there(make_trace):
    report = pasta.run("operator_time", trace=make_trace(span=SPANS))
    names = report.tables["slowest"].select("name", "host_self_ns").rows()
    assert names == [("linear", 110), ("addmm", 40), ("relu", 10)]
