"""`overhead` on counters whose parts are worked out by hand."""

from __future__ import annotations

import polars as pl
import pytest

import pasta


def metric(name, seconds, pid=1, dur=10_000_000_000):
    return {"pid": pid, "device": -1, "ts": 5, "dur": dur, "launch_id": 0, "name": name, "value": seconds, "unit": "s"}  # fmt: skip


METRICS = [
    metric("pasta.collect", 1.5),
    metric("pasta.transfer", 0.5),
    metric("pasta.collect", 3.0, pid=2, dur=2_000_000_000),
    metric("pasta.transfer", 0.0, pid=2, dur=2_000_000_000),
    metric("pasta.receive", 2.0, pid=9),
    metric("pasta.complete", 1.0, pid=9),
    metric("DataLoader.queue", 77.0),
]
SECOND = 1_000_000_000


def test_parts_by_hand(make_trace):
    """Process 1 runs 8 s of its own; process 2 counts more than it lasts, so none."""
    report = pasta.run("overhead", trace=make_trace(metric=METRICS))
    row = report.tables["runs"].to_dicts()[0]
    names = ("run_ns", "collect_ns", "transfer_ns", "receive_ns", "complete_ns", "total_ns")
    assert [row[name] / SECOND for name in names] == [8, 4.5, 0.5, 2, 1, 16]
    assert (row["programs"], row["inside_share"], row["collection_share"]) == (2, 5 / 13, 0.5)
    assert report.findings[0].startswith(
        "hooks take 38.5 % of the time of the program in t: 4.50 s"
    )
    assert report.findings[1].startswith("beside them pasta took 2.00 s to write")


def test_parts_add_up_to_the_whole(make_trace, tmp_path):
    pasta.run("overhead", trace=make_trace(metric=METRICS), out=tmp_path / "out")
    rows = pl.read_parquet(next((tmp_path / "out").rglob("by_part*.parquet")))
    assert rows["share"].sum() == pytest.approx(1)
    assert dict(rows.select("part", "time_ns").iter_rows())["transfer"] == SECOND // 2


def test_runs_and_processes_stay_apart(make_trace):
    command = [{"command": "python train.py"}, {"command": "loader", "pid": 2}]
    runs = {
        "one": make_trace("a", metric=METRICS, process=command),
        "two": make_trace("b", metric=METRICS[:2]),
    }
    report = pasta.run("overhead", runs=runs)
    assert report.tables["runs"].select("trace", "programs", "receive_ns").rows() == [("one", 2, 2 * SECOND), ("two", 1, 0)]  # fmt: skip
    rows = report.tables["processes_of_runs"].select("trace", "pid", "role", "command").rows()
    assert rows == [
        ("one", 9, "pasta", None),
        ("one", 1, "program", "python train.py"),
        ("one", 2, "program", "loader"),
        ("two", 1, "program", None),
    ]


def test_a_trace_that_tells_nothing(make_trace):
    report = pasta.run("overhead", trace=make_trace(metric=[METRICS[-1]]))
    assert report.findings == [
        "this trace does not tell what its recording cost: record it with pasta collect --with torch"
    ]
