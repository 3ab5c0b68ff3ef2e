"""`working_set_table` sets runs beside each other."""

from __future__ import annotations

import pytest

import pasta
from tests.tools.test_working_set import KERNELS, MEMORY, TOUCHES, allocate, touch


@pytest.fixture
def runs(make_trace):
    """The run of `working_set`'s tests (sets 300, 400, 200; peak 600), and one set of 1,000 of 1,200."""
    memory = [allocate(0, 0, 1_000, 1), allocate(1, 5_000, 200, 2)]
    return {
        "small": make_trace("a", memory=MEMORY, kernel=KERNELS, touch=TOUCHES),
        "large": make_trace("b", memory=memory, kernel=KERNELS[:1], touch=[touch(1, 1)]),
    }


def test_runs_by_hand(runs):
    report = pasta.run("working_set_table", runs=runs)
    columns = ["trace", "kind", "units", "footprint_bytes", "working_set_bytes", "smallest_bytes", "mean_bytes", "median_bytes", "p90_bytes", "ratio"]  # fmt: skip
    assert report.tables["runs"].select(columns).rows() == [
        ("large", "kernel launches", 1, 1_200, 1_000, 1_000, 1_000, 1_000, 1_000, 1.2),
        ("small", "kernel launches", 3, 600, 400, 200, 300, 300, 380, 1.5),
    ]


def test_facts_are_means_over_runs(runs):
    facts = pasta.run("working_set_table", runs=runs).facts
    assert (facts["runs"], facts["units"], facts["p90_bytes"]) == (2, 2, 690)
    assert (facts["footprint_bytes"], facts["working_set_bytes"]) == (900, 700)
    assert facts["ratio"] == 900 / 700


def test_lines_of_runs_are_told_apart(runs):
    parts = pasta.run("working_set_table", runs=runs).parts
    assert [part.column("series") for part in parts if getattr(part, "kind", "") == "parallel"] == ["trace"]  # fmt: skip


def test_findings(runs):
    report = pasta.run("working_set_table", runs=runs)
    assert report.findings[0].startswith("large has the largest working set, 1,000 B")
    assert report.findings[1].startswith("on average of 2 runs the largest working set is 700 B")
    assert len(pasta.run("working_set_table", trace=runs["small"]).findings) == 1


def test_processes_of_one_run_have_rows_of_their_own(make_trace):
    other = [{**row, "rank": 1} for row in MEMORY]
    touches = [touch(1, 1), {**touch(1, 2), "rank": 1}]
    kernels = [KERNELS[0], {**KERNELS[0], "rank": 1}]
    trace = make_trace("t", memory=[*MEMORY, *other], kernel=kernels, touch=touches)
    rows = pasta.run("working_set_table", trace=trace).tables["runs"]
    found = rows.select("trace", "rank", "working_set_bytes").rows()
    assert found == [("t", 0, 100), ("t", 1, 200)]
