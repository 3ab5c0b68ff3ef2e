"""`kernel_frequency` on kernels that can be counted on fingers."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

import pasta


def kernels(**counts):
    rows = []
    for name, (calls, dur) in counts.items():
        rows += [
            {"device": 0, "launch_id": len(rows) + i + 1, "ts": 10 * i, "dur": dur, "name": name}
            for i in range(calls)
        ]
    return rows


def test_calls_shares_and_quantiles(make_trace):
    trace = make_trace(kernel=kernels(a=(8, 1), b=(1, 90), c=(1, 2)))
    report = pasta.run("kernel_frequency", trace=trace)
    rows = report.tables["top"].to_dicts()
    assert [row["name"] for row in rows] == ["a", "b", "c"]
    assert [row["calls_share"] for row in rows] == [0.8, 0.1, 0.1]
    assert [row["time_share"] for row in rows] == [0.08, 0.9, 0.02]
    facts = report.facts
    assert (facts["kernels"], facts["calls"], facts["time_ns"]) == (3, 10, 100)
    assert facts["kernels_for_half_of_calls"] == 1
    assert facts["kernels_for_80_percent_of_calls"] == 1
    assert facts["kernels_for_95_percent_of_calls"] == 3
    assert facts["kernels_for_half_of_time"] == 1
    assert facts["kernels_for_95_percent_of_time"] == 2


@pytest.mark.parametrize("top", [1, 2])
def test_top_rows(make_trace, top):
    trace = make_trace(kernel=kernels(a=(8, 1), b=(2, 90), c=(1, 2)))
    assert pasta.run("kernel_frequency", trace=trace, top=top).tables["top"].height == top


def test_unfinished_kernels_are_calls_without_time(make_trace):
    trace = make_trace(kernel=kernels(a=(2, None)))
    row = pasta.run("kernel_frequency", trace=trace).tables["top"].to_dicts()[0]
    assert (row["calls"], row["time_ns"]) == (2, None)


def test_kernels_that_take_no_time_have_no_share_of_it(make_trace):
    report = pasta.run("kernel_frequency", trace=make_trace(kernel=kernels(a=(2, 0), b=(1, 0))))
    assert report.tables["top"]["time_share"].to_list() == [None, None]
    assert report.findings == [
        "a makes 2 calls, 66.7 % of all; it has no duration",
        "of 2 kernels 2 make 80 % of 3 calls",
    ]


def test_no_kernels_no_findings(make_trace):
    trace = make_trace(kernel=kernels(a=(1, 1)))
    file = trace.files("kernel")[0]
    pq.write_table(pq.read_table(file).slice(0, 0), file)
    report = pasta.run("kernel_frequency", trace=trace)
    assert report.findings == []
    assert (report.facts["kernels"], report.facts["calls"], report.facts["time_ns"]) == (0, 0, 0)
