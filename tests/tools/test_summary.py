"""`summary` counts rows and losses."""

from __future__ import annotations

import pasta


def test_counts_by_table_and_rank(make_trace):
    trace = make_trace(
        kernel=[
            {"device": 0, "launch_id": 1, "ts": 100, "dur": 50, "name": "a"},
            {"device": 0, "launch_id": 2, "ts": 200, "dur": None, "name": "b", "rank": 3},
        ],
        loss=[{"collector": "x", "reason": "dropped", "count": 7}],
    )
    report = pasta.run("summary", trace=trace)
    rows = report.tables["tables"].select("rank", "table", "rows", "start_ns", "end_ns").rows()
    assert rows == [(0, "kernel", 1, 0, 50), (3, "kernel", 1, 100, 100), (0, "loss", 1, None, None)]
    assert report.facts["rows"] == 3
    assert report.facts["ranks"] == 2
    assert report.facts["lost"] == 7
    assert report.losses == [{"collector": "x", "reason": "dropped", "count": 7, "first_ts": None}]


def test_what_is_unusual_is_a_finding_of_its_own(make_trace):
    kernels = [{"ts": 10 * n, "dur": 15, "correlation": n, "name": f"k{n}"} for n in range(1, 4)]
    calls = [{"ts": 10 * n, "dur": 1, "correlation": n} for n in (1, 2, 3)]
    assert len(pasta.run("summary", trace=make_trace(kernel=kernels, call=calls)).findings) == 2
    apart = [{**kernel, "stream": n} for n, kernel in enumerate(kernels)]
    assert len(pasta.run("summary", trace=make_trace("u", kernel=apart, call=calls)).findings) == 1


def test_a_trace_without_times_says_so(make_trace):
    trace = make_trace(metric=[{"launch_id": 1, "name": "waves", "value": 2.0}])
    [said] = pasta.run("summary", trace=trace).findings
    assert said == "1 rows in 1 tables of 1 rank(s) without a time; nothing lost"
