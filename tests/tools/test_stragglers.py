"""`stragglers` on runs with planted causes, on clean ones, on hand-made meetings and on a real sample."""

from __future__ import annotations

import polars as pl
import pytest

import pasta
from pasta.collect.importing import import_trace
from tests.tools.ranks_run import ranks_run


def run(make_trace, **given):
    return pasta.run("stragglers", trace=make_trace(**ranks_run(1, **given)))


def late(report):
    return report.tables["ranks"].filter("straggles").select("rank", "cause").sort("rank").rows()


def test_a_slow_rank_is_named_with_its_clocks(make_trace):
    report = run(make_trace, slow={3: 1.03})
    assert late(report) == [(3, "slow")]
    assert report.findings[0].startswith("rank 3 is late, and the others wait ")
    assert "take 2.9 % longer" in report.findings[0] or "take 3.0 % longer" in report.findings[0]
    assert "clocks, power and hardware" in report.findings[0]


def test_a_rank_with_more_work_is_named_with_its_share(make_trace):
    """One more kernel of 400 us beside 950 us is 42 % more."""
    report = run(make_trace, more={5: 1})
    assert late(report) == [(5, "more work")]
    assert "computes 42." in report.findings[0]
    assert "its share of the work" in report.findings[0]


def test_a_rank_whose_host_is_late_is_told_from_slow_ones(make_trace):
    report = run(make_trace, late={2: 100_000})
    assert late(report) == [(2, "late")]
    assert "look at its host" in report.findings[0]


def test_all_ranks_of_a_late_host_are_named_as_the_host(make_trace):
    report = run(make_trace, hosts=2, late=dict.fromkeys(range(4, 8), 80_000))
    assert [rank for rank, _ in late(report)] == [4, 5, 6, 7]
    assert any(each.startswith("all 4 ranks of host node1 are late") for each in report.findings)


@pytest.mark.parametrize("ahead", [11_560_000_000, -3_000_000])
def test_a_clock_that_is_off_is_named_and_no_rank_with_it(make_trace, ahead):
    report = run(make_trace, hosts=4, clock=dict.fromkeys((6, 7), ahead))
    assert late(report) == []
    (finding,) = report.findings
    side = "11.56 s ahead of" if ahead > 0 else "3.00 ms behind"
    assert finding.startswith(f"the clock of host node3 (2 ranks) was {side} the others', give or")
    shifts = report.tables["clock.clocks"].sort("rank")["shift_ns"].to_list()
    assert shifts[:6] == [0] * 6
    assert all(abs(shift + ahead) < 4_000 for shift in shifts[6:])


def test_a_slow_rank_on_a_late_clock_is_found_all_the_same(make_trace):
    plain = run(make_trace, slow={3: 1.05})
    moved = run(lambda **t: make_trace("moved", **t), slow={3: 1.05}, clock={3: 5_000_000})
    assert late(plain) == late(moved) == [(3, "slow")]
    waits = [report.facts["waited_ns"] for report in (plain, moved)]
    assert waits[1] == pytest.approx(waits[0], rel=0.02)


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ({"slow": {3: 1.03}}, (3, "slow")),
        ({"more": {5: 1}}, (5, "more work")),
        ({"late": {2: 100_000}}, (2, "late")),
    ],
)
def test_the_planted_rank_and_no_other_is_named_in_a_hundred_seeds(make_trace, planted, found):
    traces = [make_trace(f"t{seed}", **ranks_run(seed, **planted)).path for seed in range(100)]
    ranks = pasta.run("stragglers", trace=traces).tables["ranks"].filter("straggles")
    assert ranks["trace"].n_unique() == ranks.height == 100
    assert ranks.select("rank", "cause").unique().rows() == [found]


def test_nothing_is_found_in_clean_runs(make_trace):
    traces = [make_trace(f"t{seed}", **ranks_run(seed, steps=10)).path for seed in range(100)]
    report = pasta.run("stragglers", trace=traces)
    assert report.findings == []
    assert report.facts["not_matched"] == 0


@pytest.mark.parametrize(
    "name", ["ncclKernel_AllReduce_RING_LL_Sum_float(ncclWork*)", "ncclDevKernel_Generic(void*)"]
)
def test_old_and_unnamed_kernels_are_compared_too(make_trace, name):
    report = run(make_trace, slow={1: 1.1}, name=name)
    assert late(report) == [(1, "slow")]


def collective(rank, ts, dur, sequence=0, **others):
    own = {"rank": rank, "pid": 9 + rank, "device": 0, "ts": ts, "dur": dur, "sequence": sequence}
    told = {"communicator": "world", "operation": "allreduce", "sequence_source": "recorded"}
    return {**own, "launch_id": sequence + 1, **told, **others}


def test_waits_and_transfers_by_hand(make_trace):
    """Ranks begin at 0, 300 and 900 and end at 1000: they wait 900, 600 and 0, and transfer 100."""
    rows = [collective(0, 0, 1000), collective(1, 300, 700), collective(2, 900, 100)]
    report = pasta.run("stragglers", trace=make_trace(collective=rows))
    ranks = report.tables["ranks"].sort("rank")
    assert ranks["waits_ns"].to_list() == [900, 600, 0]
    assert ranks["transfer_ns"].to_list() == [100, 100, 100]
    assert ranks["others_wait_ns"].to_list() == [0, 0, 1500]
    pairs = report.tables["whom"].select("who", "last", "waited_ns").rows()
    assert pairs == [("rank 0", "rank 2", 900), ("rank 1", "rank 2", 600)]
    assert report.facts["matched_by_sequence"] == 3
    assert report.facts["matched_by_launch_order"] == 0


def test_what_is_not_the_same_is_left_out_and_counted(make_trace):
    """One alone, one of two operations, one that ends before it begins, one of one direction."""
    rows = [
        collective(0, 0, 100, 0),
        collective(1, 0, 100, 0),
        collective(0, 1_000, 100, 1),
        collective(0, 2_000, 100, 2),
        collective(1, 2_000, 100, 2, operation="allgather"),
        collective(0, 3_000, 100, 3),
        collective(1, 900_000, 100, 3),
        collective(0, 4_000, 100, 4, operation="broadcast"),
        collective(1, 4_000, 100, 4, operation="broadcast"),
    ]
    report = pasta.run("stragglers", trace=make_trace(collective=rows))
    assert (report.facts["matched"], report.facts["not_matched"]) == (2, 7)
    assert any(
        each.startswith("of 9 participations in collectives 7 are not compared")
        for each in report.findings
    )


@pytest.mark.parametrize(("members", "incomplete"), [([0, 1], 0), ([0, 1, 2], 2), (None, 0)])
def test_a_rank_that_is_missing_is_told(make_trace, members, incomplete):
    """What follows the begin of the last rank that is there may be waiting for the one that is not."""
    rows = [collective(0, 0, 1_000, members=members), collective(1, 300, 700, members=members)]
    kernels = [{**row, "name": "ncclDevKernel_AllReduce", "correlation": 0} for row in rows]
    for row in kernels:
        for name in ("communicator", "operation", "sequence", "sequence_source", "members"):
            del row[name]
    trace = make_trace(collective=rows, kernel=kernels)
    report = pasta.run("stragglers", trace=trace)
    assert report.facts["incomplete"] == incomplete
    assert any("not all ranks are in the trace" in text for text in report.findings) == (incomplete > 0)  # fmt: skip
    steps = pasta.run("step_budget", trace=trace).tables["steps"].sort("rank")
    split = "communication_ns" if incomplete else "transfer_ns"
    assert steps["wait_ns"].to_list() == [300, 0]
    assert steps[split].to_list() == [700, 700]
    assert any("communication transfers" in text for text in pasta.run("step_budget", trace=trace).findings) == (not incomplete)  # fmt: skip


def test_groups_of_one_name_are_told_apart_by_their_members(make_trace):
    rows = [
        collective(rank, 100 * rank, 1_000 - 100 * rank, members=[0, 1] if rank < 2 else [2, 3])
        for rank in range(4)
    ]
    report = pasta.run("stragglers", trace=make_trace(collective=rows))
    assert report.tables["ranks"].sort("rank")["waits_ns"].to_list() == [100, 0, 100, 0]


def test_counted_sequences_of_unequal_number_are_not_compared(make_trace):
    rows = [collective(0, 0, 9), collective(1, 0, 9), collective(0, 20, 9, 1)]
    rows = [{**row, "sequence_source": "counted"} for row in rows]
    report = pasta.run("stragglers", trace=make_trace(collective=rows))
    assert (report.facts["matched"], report.facts["not_matched"]) == (0, 3)


def test_a_trace_without_collectives_says_so(make_trace):
    row = {"ts": 0, "dur": 5, "device": 0, "launch_id": 1, "name": "gemm"}
    report = pasta.run("stragglers", trace=make_trace(kernel=[row]))
    (finding,) = report.findings
    assert finding.startswith("no collective with a duration was recorded")


def test_an_order_of_launch_that_fits_by_chance_is_not_believed(make_trace):
    """Of ten collectives on each rank, only the first two last at one time."""
    rows = [
        collective(rank, 1_000_000 * place * (1 + rank * (place > 1)), 100, place)
        for rank in range(2)
        for place in range(10)
    ]
    rows = [{**row, "sequence_source": "counted"} for row in rows]
    report = pasta.run("stragglers", trace=make_trace(collective=rows))
    assert (report.facts["matched"], report.facts["not_matched"]) == (0, 20)


def test_the_dlrm_sample_against_its_events(samples, tmp_path):
    """Eight ranks, eight collectives, clocks that agree: waits worked out from the rows alone."""
    archive = samples / "kineto_multirank" / "param_dlrm_8rank_kineto.tar.gz"
    import_trace([archive], tmp_path / "t")
    rows = pasta.open(tmp_path / "t").scan("collective").collect()
    waits = dict.fromkeys(range(8), 0)
    for _, met in rows.group_by("sequence"):
        assert met.height == 8
        for rank, ts, dur in met.select("rank", "ts", "dur").rows():
            waits[rank] += min(dur, met["ts"].max() - ts)
    report = pasta.run("stragglers", trace=tmp_path / "t")
    ranks = report.tables["ranks"].sort("rank")
    assert ranks["waits_ns"].to_list() == list(waits.values())
    total = rows.select(pl.col("dur").sum()).item()
    assert report.facts["waited_ns"] + report.facts["transfer_ns"] == total
    assert report.facts["matched_by_launch_order"] == 64
    assert "waiting for rank 7, the last in 5 of 8" in report.findings[0]
    assert set(report.tables["longest"]["operation"]) == {"alltoall", "allreduce"}
