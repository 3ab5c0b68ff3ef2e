"""`summary` counts rows and losses."""

from __future__ import annotations

from rich.console import Console

import pasta
from pasta.tools.many_ranks import one_of_alike
from pasta.tools.notebook import render_html
from pasta.tools.text import print_report


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


def many_ranks(make_trace, count: int):
    """A trace in which rank 3 has no kernel, rank 5 has thrice as many, and two lose what others do not."""
    kernels = [
        {"rank": rank, "ts": at, "dur": 1, "name": "k"}
        for rank in range(count)
        for at in range(0 if rank == 3 else 6 if rank == 5 else 2)
    ]
    losses = [
        {"rank": rank, "collector": "x", "reason": "by design", "count": 2} for rank in range(count)
    ]
    cut = [
        {"rank": rank, "collector": "x", "reason": f"cut at byte {rank}", "count": 1}
        for rank in (2, 5)
    ]
    return make_trace(kernel=kernels, loss=losses + cut)


def test_of_many_ranks_sums_are_told_and_those_that_are_unlike_most(make_trace, capsys):
    report = pasta.run("summary", trace=many_ranks(make_trace, 300))
    sums = report.tables["sums"].select("table", "ranks", "rows", "least_rows", "most_rows").rows()
    assert sums == [("kernel", 299, 602, 2, 6), ("loss", 300, 302, 1, 2)]
    assert report.tables["unlike"].select("what", "ranks", "which").rows() == [
        ("lost or doubtful: cut at byte 2", 2, "2, 5"),
        ("kernel: no row, where the median is 2", 1, "3"),
        ("kernel: over twice the median of 2 rows", 1, "5"),
    ]
    said = next(each for each in report.findings if "below: rank" in each)
    assert said.startswith("3 of 300 ranks (1.0 %) lose other things than most")
    assert said.endswith("rank 2, 3, 5")
    assert report.tables["tables"].height == 599
    print_report(report, Console(width=120))
    shown = capsys.readouterr().out
    assert shown.count("\n") < 60
    assert "599 rows, all with --format json" in shown
    assert "<h4>Rows by table and rank" not in render_html(report)


def test_rows_of_few_ranks_are_told_of_each(make_trace):
    report = pasta.run("summary", trace=many_ranks(make_trace, 8))
    assert list(report.tables) == ["tables"]


def test_of_many_ranks_one_that_nobody_knows_is_named_too(make_trace):
    """And nothing is said of most ranks that is so of half of them."""
    kernels = [
        {"rank": rank, "ts": at, "dur": 1, "name": "k"}
        for rank in (None, *range(9))
        for at in range(50 if rank is None else 2)
    ]
    calls = [{"rank": rank, "ts": 1, "dur": 1} for rank in range(5)]
    report = pasta.run("summary", trace=make_trace(kernel=kernels, call=calls))
    assert report.tables["unlike"].select("what", "which").rows() == [
        ("call: no row, where the median is 1", "unknown, 5, 6, 7, 8"),
        ("kernel: over twice the median of 2 rows", "unknown"),
    ]
    said = next(each for each in report.findings if "below: rank" in each)
    assert said.endswith("rank unknown, 5, 6, 7, 8")


def test_ranks_of_several_traces_are_named_with_theirs(make_trace):
    runs = {
        name: make_trace(
            name,
            kernel=[
                {"rank": rank, "ts": at, "dur": 1, "name": "k"}
                for rank in range(5)
                for at in range(9 if rank == other else 2)
            ],
        )
        for name, other in {"before": 3, "after": 4}.items()
    }
    said = next(each for each in pasta.run("summary", runs=runs).findings if "below: rank" in each)
    assert said.endswith("rank 4 of after, 3 of before")


def test_ranks_that_are_all_alike_are_said_to_be(make_trace):
    kernels = [{"rank": rank, "ts": 1, "dur": 1, "name": "k"} for rank in range(9)]
    report = pasta.run("summary", trace=make_trace(kernel=kernels))
    assert report.tables["unlike"].height == 0
    assert not [each for each in report.findings if "below: rank" in each]


def test_warnings_of_many_files_that_differ_in_numbers_are_one():
    cut = [f"rank{n}.json: cut at byte {10 * n}" for n in range(9)]
    assert one_of_alike(cut[:8]) == cut[:8]
    assert one_of_alike([*cut, "a: no event"]) == [
        "rank0.json: cut at byte 0 (and 8 such of other numbers)",
        "a: no event",
    ]


def test_what_is_unusual_is_a_finding_of_its_own(make_trace):
    kernels = [{"ts": 10 * n, "dur": 15, "correlation": n, "name": f"k{n}"} for n in range(1, 4)]
    calls = [{"ts": 10 * n, "dur": 1, "correlation": n} for n in (1, 2, 3)]
    assert len(pasta.run("summary", trace=make_trace(kernel=kernels, call=calls)).findings) == 2
    apart = [{**kernel, "stream": n} for n, kernel in enumerate(kernels)]
    assert len(pasta.run("summary", trace=make_trace("u", kernel=apart, call=calls)).findings) == 1


def test_what_is_unusual_names_its_trace_where_there_are_several(make_trace):
    kernels = [{"ts": 10 * n, "dur": 15, "correlation": n, "name": f"k{n}"} for n in range(1, 4)]
    calls = [{"ts": 10 * n, "dur": 1, "correlation": n} for n in (1, 2, 3)]
    apart = [{**kernel, "stream": n} for n, kernel in enumerate(kernels)]
    runs = {
        name: make_trace(name, kernel=rows, call=calls)
        for name, rows in {"usual": apart, "odd": kernels}.items()
    }
    [_, alone] = pasta.run("summary", trace=runs["odd"]).findings
    assert pasta.run("summary", runs=runs).findings[1:] == [f"odd: {alone}"]


def test_a_trace_without_times_says_so(make_trace):
    trace = make_trace(metric=[{"launch_id": 1, "name": "waves", "value": 2.0}])
    [said] = pasta.run("summary", trace=trace).findings
    assert said == "1 rows in 1 tables of 1 rank(s) without a time; nothing lost"
