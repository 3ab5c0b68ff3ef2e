"""`scaling` on runs worked out by hand, and on a run that the Dask engine has timed."""

from __future__ import annotations

import polars as pl
import pytest

import pasta
from pasta.errors import PastaError, TraceError
from tests.conftest import write_trace
from tests.pipeline.engines.ranks import trace_of_ranks

PARTS = ["read_ns", "compute_ns", "combine_ns", "disk_ns", "transfer_ns", "idle_ns"]


def span(name, ts, dur, worker=0, level="phase"):
    return {"rank": worker, "pid": worker, "tid": 0, "level": level, "name": name, "ts": ts, "dur": dur}  # fmt: skip


def a_run(folder, workers, wall, spans, tool="t"):
    threads = [{"rank": n, "pid": n, "tid": 0, "name": "worker"} for n in range(workers)]
    caller = {"rank": workers, "pid": workers, "tid": 0, "name": "caller"}
    whole = span(tool, 1000, wall, workers, "run")
    return write_trace(folder, span=[whole, *spans], thread=[*threads, caller])


@pytest.fixture
def runs(tmp_path):
    """One worker takes 100 ns; two take 80 ns, one of them fetching what the other made."""
    one = [span("compute", 1000, 60), span("read", 1010, 20), span("combine", 1070, 10)]
    two = [
        span("compute", 1000, 40),
        span("read", 1000, 10),
        span("compute", 1000, 20, worker=1),
        span("transfer", 1010, 25, worker=1),
        span("combine", 1035, 5, worker=1),
        span("disk", 1040, 2, worker=1),
        span("caller", 1042, 38, worker=2),
    ]
    return {
        "two": a_run(tmp_path / "two", 2, 80, two),
        "one": a_run(tmp_path / "one", 1, 100, one),
        "idle": a_run(tmp_path / "idle", 4, 50, [], tool="other"),
    }


def test_parts_by_hand(runs):
    report = pasta.run("scaling", runs=runs)
    rows = {row["trace"]: row for row in report.tables["runs"].to_dicts()}
    assert list(rows) == ["idle", "one", "two"]
    assert [rows["one"][part] for part in PARTS] == [20, 40, 10, 0, 0, 30]
    assert [rows["two"][part] for part in PARTS] == [10, 50, 5, 2, 15, 78]
    assert [rows["idle"][part] for part in PARTS] == [0, 0, 0, 0, 0, 200]
    assert [rows[name]["workers"] for name in rows] == [4, 1, 2]
    assert (rows["two"]["speed_up"], rows["two"]["efficiency"]) == (1.25, 0.625)
    assert (rows["one"]["speed_up"], rows["one"]["efficiency"]) == (1.0, 1.0)
    assert rows["idle"]["speed_up"] == 1.0
    assert rows["two"]["caller_ns"] == 38


def test_findings_come_first(runs):
    findings = pasta.run("scaling", runs=runs).findings
    assert findings[0].startswith(
        "two: t on 2 workers is 1.25 times as fast as on 1 (0.625 efficient)"
    )
    assert any("while the caller runs" in found and "47.5 %" in found for found in findings)
    assert not any(": other on " in found for found in findings)


def test_the_slowest_of_several_runs_on_the_fewest_workers_is_not_the_measure(runs, tmp_path):
    runs["again"] = a_run(tmp_path / "again", 1, 200, [])
    rows = pasta.run("scaling", runs=runs).tables["runs"]
    assert dict(zip(rows["trace"], rows["speed_up"], strict=True))["two"] == 1.25


def test_a_timed_run_gives_the_same_and_its_parts_add_up(tmp_path):
    pytest.importorskip("distributed")
    trace = trace_of_ranks(tmp_path / "ranks")
    timings = tmp_path / "timings"
    found = pasta.run("operator_time", trace=trace, engine="dask", workers=2, timings=timings)
    wanted = pasta.run("operator_time", trace=trace, engine="cpu")
    assert found.tables["slowest"].equals(wanted.tables["slowest"])
    (row,) = pasta.run("scaling", trace=timings).tables["runs"].to_dicts()
    assert row["tool"] == "operator_time"
    assert row["workers"] == 2
    assert sum(row[part] for part in PARTS) == row["total_ns"] == 2 * row["wall_ns"]
    assert min(row["read_ns"], row["compute_ns"], row["caller_ns"], row["idle_ns"]) > 0
    spans = pasta.open(timings).scan("span").collect()
    whole = spans.filter(level="run").row(0, named=True)
    begins, ends = pl.col("ts"), pl.col("ts") + pl.col("dur")
    slack = 10_000_000
    within = (begins >= whole["ts"] - slack) & (ends <= whole["ts"] + whole["dur"] + slack)
    assert spans.filter(~within).is_empty()


@pytest.mark.parametrize("tool", ["kernel_frequency", "hot_path"])
def test_work_that_leaves_only_states_or_only_rows_is_timed_too(tmp_path, tool):
    pytest.importorskip("distributed")
    trace = trace_of_ranks(tmp_path / "ranks")
    pasta.run(tool, trace=trace, engine="dask", workers=1, timings=tmp_path / "timings")
    (row,) = pasta.run("scaling", trace=tmp_path / "timings").tables["runs"].to_dicts()
    assert row["compute_ns"] > 0


def test_timings_need_workers_and_a_free_folder(tmp_path):
    with pytest.raises(PastaError, match=r"^--timings needs workers with CPUs; add --engine dask"):
        pasta.run("kernel_frequency", engine="cpu", timings=tmp_path / "t")
    pytest.importorskip("distributed")
    (tmp_path / "taken").write_text("")
    with pytest.raises(TraceError, match="already exists and is not empty"):
        pasta.run("kernel_frequency", engine="dask", workers=1, timings=tmp_path)
