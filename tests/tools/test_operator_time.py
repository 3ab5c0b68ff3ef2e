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
    assert facts["device_in_operators_ns"] == 5 + 6 + 70 + 800
    assert facts["device_in_other_ranges_ns"] == 0
    assert facts["device_in_no_range_ns"] == 9_000 + 20_000 + 40_000
    assert (facts["kernels"], facts["kernels_in_operators"]) == (7, 4)
    assert (facts["kernels_in_other_ranges"], facts["kernels_in_no_range"]) == (0, 3)


def test_without_kernels_host_times_are_there(make_trace):
    report = pasta.run("operator_time", trace=make_trace(span=SPANS))
    names = report.tables["slowest"].select("name", "host_self_ns").rows()
    assert names == [("linear", 110), ("addmm", 40), ("relu", 10)]
    assert report.tables["on_device"].is_empty()
    assert set(report.facts.values()) == {0}
    assert len(report.findings) == 1


def test_device_time_of_annotations_is_not_that_of_operators(make_trace):
    """A launch in `decode` outside any operator, one in `mm`, one in `inner` below `mm`."""
    spans = [
        span(1, "decode", 0, 100, "annotation"),
        span(2, "mm", 10, 50),
        span(3, "inner", 20, 10, "annotation"),
    ]
    calls = [call(1, 5), call(2, 15), call(3, 25), call(4, 500)]
    kernels = [kernel(1, 1, 1_000), kernel(2, 2, 20), kernel(3, 3, 3), kernel(4, 4, 5)]
    report = pasta.run("operator_time", trace=make_trace(span=spans, call=calls, kernel=kernels))
    assert report.facts == {
        "device_ns": 1_028,
        "device_in_operators_ns": 23,
        "device_in_other_ranges_ns": 1_000,
        "device_in_no_range_ns": 5,
        "kernels": 4,
        "kernels_in_operators": 2,
        "kernels_in_other_ranges": 1,
        "kernels_in_no_range": 1,
        "unfinished_ranges": 0,
    }
    assert "decode launched most device time: 1.00 us in 1 kernel" in report.findings


def test_a_path_is_credited_with_its_own_kernels_only(make_trace):
    spans = [span(1, "outer", 0, 100), span(2, "inner", 10, 50)]
    kernels = [kernel(1, 1, 900), kernel(2, 2, 20), kernel(3, 2, 30)]
    trace = make_trace(span=spans, call=[call(1, 5), call(2, 15)], kernel=kernels)
    report = pasta.run("operator_time", trace=trace)
    assert "outer launched most device time: 900 ns in 1 kernel" in report.findings
    row = report.tables["on_device"].to_dicts()[0]
    assert (row["kernels_self"], row["kernels"]) == (1, 3)


def test_calls_add_up_over_steps(make_trace):
    spans = [
        span(1, "train", 0, 1_000, "run"),
        span(2, "step 0", 0, 100, "step") | {"parent_id": 1},
        span(3, "mm", 10, 50) | {"parent_id": 2},
        span(4, "step 1", 100, 100, "step") | {"parent_id": 1},
        span(5, "mm", 110, 70) | {"parent_id": 4},
    ]
    rows = pasta.run("operator_time", trace=make_trace(span=spans)).tables["on_host"]
    assert rows.select("path", "calls", "host_ns", "host_self_ns").rows() == [
        ("train", 1, 1_000, 880),
        ("train > mm", 2, 120, 120),
    ]


def test_an_unfinished_range_takes_neither_time_nor_what_follows(make_trace):
    spans = [span(1, "lost", 0, None), span(2, "mm", 10, 50), span(3, "add", 100, 5)]
    calls, kernels = [call(1, 20), call(2, 70)], [kernel(1, 1, 8), kernel(2, 2, 4)]
    report = pasta.run("operator_time", trace=make_trace(span=spans, call=calls, kernel=kernels))
    rows = report.tables["on_host"].select("path", "host_self_ns", "kernels").rows()
    assert rows == [("mm", 50, 1), ("add", 5, 0), ("lost", 0, 0)]
    assert report.facts["unfinished_ranges"] == 1
    assert report.facts["kernels_in_no_range"] == 1
    assert any(finding.startswith("1 range has no recorded end") for finding in report.findings)
