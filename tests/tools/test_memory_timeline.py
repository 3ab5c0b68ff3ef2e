"""`memory_timeline`: the peak, what held it, and what was there before the trace."""

from __future__ import annotations

import pasta


def event(kind, ts, address, size, *, total=None, reserved=None, tid=1):
    return {"ts": ts, "tid": tid, "device": 0, "event": kind, "space": "tensor", "address": address, "bytes": size, "object_id": 0, "total_allocated": total, "total_reserved": reserved}  # fmt: skip


SPANS = [
    {"tid": 1, "ts": 0, "dur": 100, "span_id": 1, "level": "operator", "name": "conv"},
    {"tid": 1, "ts": 200, "dur": 100, "span_id": 2, "level": "operator", "name": "relu"},
    {"tid": 1, "ts": 205, "dur": 10, "span_id": 3, "level": "function", "name": "f.py(1): f"},
]


def test_peak_and_holders_by_hand(make_trace):
    memory = [
        event("allocate", 10, 0, 64),
        event("allocate", 20, 64, 100),
        event("release", 150, 0, 64),
        event("allocate", 210, 0, 300),
        event("release", 220, 64, 100),
    ]
    report = pasta.run("memory_timeline", trace=make_trace(memory=memory, span=SPANS))
    row = report.tables["peak_by_space"].to_dicts()[0]
    assert (row["peak_bytes"], row["held_bytes"], row["before_trace_bytes"]) == (400, 400, 0)
    assert (row["allocations"], row["releases"]) == (3, 2)
    assert row["allocated_bytes"] - row["released_bytes"] == 300
    holders = report.tables["largest_holders"].select("allocated_in", "held_bytes", "objects")
    assert holders.rows() == [("relu", 300, 1), ("conv", 100, 1)]


def test_recorded_totals_count_what_was_there_before(make_trace):
    memory = [
        event("allocate", 10, 0, 64, total=1_064, reserved=4_096),
        event("release", 20, 512, 500, total=564, reserved=4_096),
    ]
    report = pasta.run("memory_timeline", trace=make_trace(memory=memory))
    row = report.tables["peak_by_space"].to_dicts()[0]
    assert (row["peak_bytes"], row["reserved_bytes"]) == (1_064, 4_096)
    assert row["before_trace_bytes"] == 1_000
    assert (row["held_bytes"], row["unknown_bytes"]) == (64, 1_000)
    assert any("before the trace began" in finding for finding in report.findings)


def test_events_without_addresses_and_totals_add_up(make_trace):
    """Live after each event: 500, 800, 300; the release at 30 has no partner that is known."""
    memory = [
        event("allocate", 10, None, 500),
        event("allocate", 20, None, 300),
        event("release", 30, None, 500),
    ]
    report = pasta.run("memory_timeline", trace=make_trace(memory=memory, span=SPANS))
    row = report.tables["peak_by_space"].to_dicts()[0]
    assert (row["peak_bytes"], row["held_bytes"], row["unknown_bytes"]) == (800, 0, 800)
    assert row["before_trace_bytes"] == 0
    assert any("have no address" in finding for finding in report.findings)
    assert report.tables["largest_holders"].is_empty()


def test_a_trace_that_begins_with_a_release_had_the_bytes_before(make_trace):
    memory = [event("release", 10, 64, 700), event("allocate", 20, 0, 64)]
    report = pasta.run("memory_timeline", trace=make_trace(memory=memory))
    row = report.tables["peak_by_space"].to_dicts()[0]
    assert (row["peak_bytes"], row["before_trace_bytes"], row["held_bytes"]) == (700, 700, 0)


def test_processes_of_one_rank_are_apart(make_trace):
    memory = [event("allocate", 10, 0, 100), {**event("allocate", 10, 0, 300), "pid": 2}]
    report = pasta.run("memory_timeline", trace=make_trace(memory=memory))
    columns = ["pid", "peak_bytes", "held_bytes", "unknown_bytes"]
    rows = report.tables["peak_by_space"].select(columns).rows()
    assert rows == [(1, 100, 100, 0), (2, 300, 300, 0)]
    holders = report.tables["largest_holders"].select("pid", "held_bytes", "allocated_in").rows()
    assert holders == [(2, 300, "(outside every range)"), (1, 100, "(outside every range)")]


def test_the_host_is_named(make_trace):
    memory = [{**event("allocate", 10, 0, 100), "device": -1}]
    report = pasta.run("memory_timeline", trace=make_trace(memory=memory))
    assert report.findings[0] == "tensor memory of the host, rank 0: at most 100 B live"
    assert report.findings[1].endswith(
        "100 B of what was live on the host at the peak, in 1 object"
    )


def test_findings_of_several_traces_name_theirs(make_trace):
    runs = [make_trace(name, memory=[event("allocate", 10, 0, size)]) for name, size in (("a", 100), ("b", 300))]  # fmt: skip
    findings = pasta.run("memory_timeline", trace=runs).findings
    assert findings[:2] == [
        "b: tensor memory of device 0, rank 0: at most 300 B live",
        "a: tensor memory of device 0, rank 0: at most 100 B live",
    ]


def test_old_profiles_without_addresses(samples):
    """The running sums of the signed bytes in the file reach these peaks."""
    trace = samples / "kineto" / "kineto_resnet50_workers4_2021.json.gz"
    rows = pasta.run("memory_timeline", trace=trace).tables["peak_by_space"]
    assert rows.select("device", "peak_bytes").rows() == [(-1, 19_267_840), (0, 2_791_505_408)]
