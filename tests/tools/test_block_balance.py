"""`block_balance` on grids whose balance is known, and against counting each access."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given

import pasta
from tests.conftest import write_trace
from tests.tools.warps import BASE, FEW, KERNELS, NAMES, PROGRAMS, request, row_of


def run(rows):
    with tempfile.TemporaryDirectory() as folder:
        trace = write_trace(Path(folder) / "t", access=rows, kernel=KERNELS)
        return pasta.run("block_balance", trace=trace, top=1000)


def test_an_even_grid():
    rows = [row for block in (0, 1) for row in request(block, row_of(BASE), block=block)]
    report = run(rows)
    launch = report.tables["uneven"].to_dicts()[0]
    assert (launch["blocks"], launch["grid_blocks"], launch["imbalance"]) == (2, 2, 1)
    assert (launch["active_share"], launch["idle_requests"], launch["idle_lanes"]) == (1, 0, 0)
    assert report.findings == ["100.0 % of the lanes take part in 2 requests of 1 launch"]


def test_one_block_does_three_times_the_work():
    rows = [row for at in range(4) for row in request(at, row_of(BASE), block=int(at == 3))]
    report = run(rows)
    launch = report.tables["uneven"].to_dicts()[0]
    assert (launch["most_requests"], launch["mean_requests"], launch["imbalance"]) == (3, 2, 1.5)
    assert launch["idle_requests"] == 2
    assert report.findings[0] == (
        "the busiest block of a launch of first makes 3 requests, 1.5 times the mean of its 2 blocks"
    )


def test_a_branch_idles_half_a_warp():
    rows = [*request(0, row_of(BASE), pc=0x10), *request(1, row_of(BASE, lanes=16), pc=0x20)]
    report = run(rows)
    shares = report.tables["divergent"].select("pc", "active_share", "idle_lanes").rows()
    assert shares == [(0x20, 0.5, 16), (0x10, 1.0, 0)]
    assert report.findings[0] == "50.0 % of the lanes take part in instruction 0x20 of first, which makes 1 request"  # fmt: skip
    assert report.facts["active_share"] == 0.75
    assert report.facts["missing"] == 1


def test_warps_of_64_lanes():
    report = run(request(0, row_of(BASE, lanes=64)))
    assert report.facts["active_share"] == 1


@FEW
@given(PROGRAMS)
def test_equals_counting(rows):
    report = run(rows)
    requests, lanes, by_pc = defaultdict(set), Counter(), defaultdict(set)
    for row in rows:
        if row["op"] != 3:
            requests[row["launch_id"], row["block"]].add(row["request"])
            lanes[NAMES[row["launch_id"]], row["pc"]] += 1
            by_pc[NAMES[row["launch_id"]], row["pc"]].add((row["launch_id"], row["request"]))
    found = report.tables["uneven"].select("launch_id", "blocks", "most_requests", "imbalance")
    expected = {}
    for launch, _ in requests:
        sizes = [len(made) for (of, _), made in requests.items() if of == launch]
        expected[launch] = (len(sizes), max(sizes), pytest.approx(max(sizes) * len(sizes) / sum(sizes)))  # fmt: skip
    assert {row[0]: row[1:] for row in found.rows()} == expected
    found = report.tables["divergent"].select("name", "pc", "accesses", "active_share", "requests")
    assert {row[:2]: row[2:] for row in found.rows()} == {
        key: (count, pytest.approx(count / (32 * len(by_pc[key]))), len(by_pc[key]))
        for key, count in lanes.items()
    }
