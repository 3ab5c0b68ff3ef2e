"""`comm_overlap` on timelines whose answer is worked out by hand, on runs of ranks and on a real sample."""

from __future__ import annotations

import polars as pl

import pasta
from pasta.collect.importing import import_trace
from tests.tools.hidden_run import communication, hidden_run, kernel, step
from tests.tools.ranks_run import ranks_run


def call(correlation, ts):
    return {"tid": 2, "correlation": correlation, "ts": ts, "dur": 1, "name": "launch"}


def test_parts_by_hand(make_trace):
    """Computation 0-100 and 150-200, communication 50-180 and 90-220: 170 in all, 100 of it hidden."""
    first, second = communication(3, 50, 130), communication(4, 90, 130)
    trace = make_trace(
        kernel=[kernel(1, 0, 100), kernel(2, 150, 50, stream=8), first[0], second[0]],
        collective=[first[1], second[1]],
    )
    report = pasta.run("comm_overlap", trace=trace)
    (row,) = report.tables["ranks"].to_dicts()
    assert (row["communication_ns"], row["hidden_ns"], row["exposed_ns"]) == (170, 100, 70)
    assert row["span_ns"] == 220
    assert report.findings[0].startswith("computation hides 58.8 % of 170 ns communication; 70 ns")


def test_steps_by_the_launch_and_hidden_by_their_neighbours(make_trace):
    """Step 0 launches communication 90-140, which computation of step 1 from 100 on hides."""
    one, other = communication(2, 90, 50), communication(4, 300, 40)
    trace = make_trace(
        kernel=[kernel(1, 0, 60), one[0], kernel(3, 100, 100), other[0]],
        collective=[one[1], other[1]],
        call=[call(1, 0), call(2, 5), call(3, 60), call(4, 65)],
        span=[step(0, 0, 50), step(1, 50, 50)],
    )
    steps = pasta.run("comm_overlap", trace=trace).tables["worst"].sort("step")
    assert steps.select("step", "communication_ns", "hidden_ns", "exposed_ns").rows() == [
        ("step 0", 50, 40, 10),
        ("step 1", 40, 0, 40),
    ]


def test_a_step_that_stands_out_is_named(make_trace):
    """Communication of 100 ns a step, hidden by computation but for 10 ns, and in step 6 not at all."""
    kernels, collectives, spans = [], [], []
    for number in range(9):
        at = 1_000 * number
        kernels.append(kernel(2 * number + 1, at, 500 if number == 6 else 590))
        row, met = communication(2 * number + 2, at + 500, 100)
        kernels.append(row)
        collectives.append(met)
        spans.append(step(number, at, 1_000))
    report = pasta.run("comm_overlap", trace=make_trace(kernel=kernels, collective=collectives, span=spans))  # fmt: skip
    (finding,) = [each for each in report.findings if "stands out" in each]
    assert finding.startswith(
        "step 6 of rank 0 stands out: 100 ns of its communication are exposed"
    )
    assert "10 ns usually" in finding


SEEDS = 100


def test_no_step_of_a_clean_run_stands_out(make_trace):
    hidden = [make_trace(f"h{seed}", **hidden_run(seed)) for seed in range(SEEDS)]
    report = pasta.run("comm_overlap", trace=hidden, top=10**6)
    assert not [each for each in report.findings if "stands out" in each]
    ranks = report.tables["ranks"]
    assert ranks.height == 2 * SEEDS
    assert (ranks["communication_ns"] == ranks["hidden_ns"] + ranks["exposed_ns"]).all()
    assert ranks["hidden_share"].is_between(0.7, 0.95).all()
    bare = [make_trace(f"b{seed}", **ranks_run(seed, ranks=2, steps=6)) for seed in range(SEEDS)]
    report = pasta.run("comm_overlap", trace=bare)
    assert not [each for each in report.findings if "stands out" in each]
    assert report.tables["ranks"]["hidden_share"].max() == 0


def test_a_step_that_exposes_communication_is_named_in_every_seed(make_trace):
    planted = {seed: (seed % 2, seed % 12) for seed in range(SEEDS)}
    traces = [make_trace(f"{seed}", **hidden_run(seed, {where: 400_000})) for seed, where in planted.items()]  # fmt: skip
    report = pasta.run("comm_overlap", trace=traces, top=10**6)
    apart = report.tables["apart"].select("trace", "rank", "number").rows()
    assert sorted(apart) == sorted((f"{seed}", *where) for seed, where in planted.items())
    assert next(text for text in report.findings if "stands out" in text).endswith("usually")


def test_without_communication_there_is_nothing_to_hide(make_trace):
    report = pasta.run("comm_overlap", trace=make_trace(kernel=[kernel(1, 0, 5)]))
    assert report.findings == [
        "no kernel of a collective that takes time was recorded, so that there is nothing to hide"
    ]


def test_the_dlrm_sample_nanosecond_by_nanosecond(samples, tmp_path):
    """Microseconds are this file's resolution: each is looked at, on every rank."""
    archive = samples / "kineto_multirank" / "param_dlrm_8rank_kineto.tar.gz"
    import_trace([archive], tmp_path / "t")
    trace = pasta.open(tmp_path / "t")
    ids = trace.scan("collective").select("rank", "launch_id", meets=True)
    kernels = trace.scan("kernel").join(ids, on=["rank", "launch_id"], how="left").collect()
    ranks = pasta.run("comm_overlap", trace=tmp_path / "t").tables["ranks"]
    for rank, rows in kernels.group_by("rank"):
        busy: dict[bool, set[int]] = {True: set(), False: set()}
        for ts, dur, meets in rows.select("ts", "dur", "meets").rows():
            busy[bool(meets)].update(range(ts // 1000, (ts + dur) // 1000))
        found = ranks.filter(pl.col("rank") == rank[0]).row(0, named=True)
        assert found["communication_ns"] == 1000 * len(busy[True])
        assert found["hidden_ns"] == 1000 * len(busy[True] & busy[False])
