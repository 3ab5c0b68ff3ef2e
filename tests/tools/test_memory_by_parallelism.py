"""`memory_by_parallelism` on hand-made ranks, and `memory_timeline_diff` on hand-made runs."""

from __future__ import annotations

import polars as pl
import pytest

import pasta
from tests.tools.training_run import event, life, steps


def ranks(sizes):
    """For each rank its size is live from 10 to 40 and half of it until 70, of 100 ns."""
    rows = []
    for rank, size in enumerate(sizes):
        shift = 1000 * rank
        events = [*life(shift + 10, shift + 40, 1, size // 2), *life(shift + 10, shift + 70, 2, size // 2)]  # fmt: skip
        events += [event("allocate", shift, 3, 0), event("release", shift + 100, 3, 0)]
        rows += [{**one, "rank": rank} for one in events]
    return rows


def test_ranks_side_by_side(make_trace):
    """Mean: size from 10 to 40 and half from 40 to 70, over 100 ns: 0.45 of the size."""
    trace = make_trace(memory=ranks([1000, 400]))
    report = pasta.run("memory_by_parallelism", trace=trace)
    devices = report.tables["devices"].select("rank", "peak_bytes", "mean_bytes", "spare_bytes")
    assert devices.rows() == [(0, 1000, pytest.approx(450), 0), (1, 400, pytest.approx(180), 600)]
    run = report.tables["largest"].to_dicts()[0]
    assert (run["devices"], run["all_bytes"], run["asymmetry"]) == (2, 1400, 2.5)
    assert report.findings[0] == "rank 0 device 0 has the highest peak, 1,000 B"


def test_runs_side_by_side(make_trace):
    """Data parallel doubles what tensor parallel halves."""
    runs = {name: make_trace(name, memory=ranks(sizes)) for name, sizes in [("data", [800, 800]), ("tensor", [400, 400])]}  # fmt: skip
    report = pasta.run("memory_by_parallelism", runs=runs)
    rows = report.tables["largest"].select("trace", "peak_bytes", "all_bytes", "asymmetry").rows()
    assert rows == [("data", 800, 1600, 1.0), ("tensor", 400, 800, 1.0)]
    assert report.findings[0] == "data rank 0 device 0 has the highest peak, 800 B"


def test_one_step(make_trace):
    memory = [*life(20, 30, 1, 900), *life(120, 150, 2, 50), *life(130, 180, 3, 60)]
    trace = make_trace(memory=memory, span=steps(2))
    report = pasta.run("memory_by_parallelism", trace=trace, step=1)
    assert report.tables["devices"]["peak_bytes"].to_list() == [110]
    assert not any("is known" in finding for finding in report.findings)


def test_a_step_that_is_not_there(make_trace):
    trace = make_trace(memory=life(20, 30, 1, 900), span=steps(2))
    report = pasta.run("memory_by_parallelism", trace=trace, step=7)
    assert report.findings == ["no allocation or release of device memory is known of step 7"]


def test_the_difference_of_two_runs(make_trace):
    """Before: 100 from 0 to 50. After: 100 from 0 to 20, 300 to 40, 200 to 60."""
    spans = [{"tid": 1, "level": "operator", "name": "more", "span_id": 1, "ts": 1015, "dur": 10}]
    before = make_trace("a", memory=life(0, 50, 1, 100))
    after = make_trace("b", memory=[*life(1000, 1040, 1, 100), *life(1020, 1060, 2, 200)], span=spans)  # fmt: skip
    report = pasta.run("memory_timeline_diff", runs={"before": before, "after": after})
    peaks = report.tables["places"].select("peak_before_bytes", "peak_after_bytes", "most_more_bytes", "most_less_bytes")  # fmt: skip
    assert peaks.rows() == [(100, 300, 200, 0)]
    assert report.findings[0] == "the peak of device 0, rank 0 rises by 200 B, from 100 B to 300 B"
    assert report.findings[1] == "more allocates 200 B instead of 0 B"
    backwards = pasta.run("memory_timeline_diff", runs={"before": after, "after": before})
    assert backwards.findings[0].startswith("the peak of device 0, rank 0 falls by 200 B")


def test_equal_runs_of_unequal_speed_do_not_differ_by_share(make_trace):
    slow = make_trace("slow", memory=[row for n in range(9) for row in life(n * 100, n * 100 + 50, n, n)])  # fmt: skip
    fast = make_trace("fast", memory=[row for n in range(9) for row in life(n * 10, n * 10 + 5, n, n)])  # fmt: skip
    runs = {"before": slow, "after": fast}
    shared = pasta.run("memory_timeline_diff", runs=runs, by="share")
    chart = next(part for part in shared.parts if getattr(part, "kind", "") == "line")
    assert (chart.roles["x"], chart.rows["at_ns"].max()) == ("at_ns", 850)
    by_share = shared.tables["places"]
    assert by_share.select("most_more_bytes", "most_less_bytes").rows() == [(0, 0)]
    by_time = pasta.run("memory_timeline_diff", runs=runs).tables["places"]
    assert by_time.select("most_more_bytes", "most_less_bytes").rows() != [(0, 0)]


def test_a_first_run_of_one_moment_leaves_the_times_of_the_second(make_trace):
    moment = make_trace("moment", memory=[event("allocate", 5, 1, 100)])
    runs = {"before": moment, "after": make_trace("after", memory=life(0, 50, 1, 100))}
    shared = pasta.run("memory_timeline_diff", runs=runs, by="share")
    chart = next(part for part in shared.parts if getattr(part, "kind", "") == "line")
    assert chart.rows["at_ns"].to_list() == [0, 50]


def test_a_device_of_the_second_run_alone_is_stretched_too(make_trace):
    others = [{**row, "device": 1} for row in life(0, 10, 1, 100)]
    runs = {"before": make_trace("before", memory=life(0, 100, 1, 100)), "after": make_trace("after", memory=others)}  # fmt: skip
    shared = pasta.run("memory_timeline_diff", runs=runs, by="share")
    chart = next(part for part in shared.parts if getattr(part, "kind", "") == "line")
    assert chart.rows.filter(pl.col("where").str.starts_with("device 1"))["at_ns"].to_list() == [0, 100]  # fmt: skip


def test_one_run_has_nothing_to_compare_with(make_trace):
    report = pasta.run("memory_timeline_diff", trace=make_trace(memory=life(0, 50, 1, 100)))
    assert report.findings == ["there is nothing to compare: name two runs, --run before=DIR --run after=DIR"]  # fmt: skip


def test_twins_on_two_cards(samples):
    """The allocators' own highest totals in both files."""
    files = {"before": "h100", "after": "mi300"}
    runs = {name: samples / "kineto" / f"tracelens_{card}_bert_small.json.gz" for name, card in files.items()}  # fmt: skip
    rows = pasta.run("memory_timeline_diff", runs=runs).tables["places"]
    peaks = rows.filter(where="device 0, rank 0").select("peak_before_bytes", "peak_after_bytes")
    assert peaks.rows() == [(101_305_344, 146_394_112)]
