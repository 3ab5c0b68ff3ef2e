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
    assert row["held_bytes"] == 564
    assert row["before_trace_bytes"] == 500
    assert any("before the trace began" in finding for finding in report.findings)
