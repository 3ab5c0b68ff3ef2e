"""`diff` on hand-made runs: planted changes are found with exact figures, and noise is no finding."""

from __future__ import annotations

import polars as pl
import pytest

import pasta
from tests.tools.compared_runs import OPERATORS, Operator, changed, run_of

KINDS = ("whole", "operator", "module", "kernel", "place")


@pytest.fixture
def compare(make_trace, tmp_path):
    """A function that writes two runs and compares them: gives the report and all changes."""

    def run(before, after, **parameters):
        runs = {
            name: make_trace(name, **tables)
            for name, tables in (("before", before), ("after", after))
        }
        report = pasta.run("diff", runs=runs, out=tmp_path / "out", **parameters)
        return report, pl.read_parquet(tmp_path / "out" / "changes.parquet")

    return run


def only(changes, **wanted):
    [row] = changes.filter(**wanted).to_dicts()
    return row


def test_a_slower_kernel_is_named_with_its_figures(compare):
    report, changes = compare(run_of(), run_of(changed("aten::gelu", "gelu", dur=47_000)))
    assert report.findings == [
        "device time of a step is 1.01 ms instead of 1.00 ms, 7.00 us (0.7 %) more, more than chance",
        "a step takes 1.90 ms, was 1.90 ms: no further apart than by chance",
        "host time of a step is 60.00 us, was 60.00 us: no further apart than by chance",
        "aten::gelu takes 47.00 us a step instead of 40.00 us, 7.00 us more, more than chance, in kernel gelu",
    ]
    row = only(changes, kind="kernel", operator="aten::gelu")
    assert (row["before_ns"], row["after_ns"], row["change_ns"]) == (480_000, 564_000, 84_000)
    assert (row["before_step_ns"], row["change_step_ns"], row["status"]) == (40_000, 7_000, "both")
    significant = changes.filter(verdict="significant", what="device").select(
        "kind", "change_step_ns"
    )
    assert sorted(significant.rows()) == [(kind, 7_000) for kind in sorted(KINDS)]


def test_parts_add_up_to_the_difference_of_the_runs(compare):
    after = (
        *changed("aten::mm", "gemm_a", dur=280_001),
        Operator("head", "aten::mm", "gemm_c", 333),
    )
    tables = run_of(), run_of(after, steps=9, noise=0.3, seed=4)
    exact = [sum(kernel["dur"] for kernel in run["kernel"]) for run in tables]
    _, changes = compare(*tables)
    for kind in KINDS:
        sums = (
            changes.filter(kind=kind, what="device")
            .select("before_ns", "after_ns", "change_ns")
            .sum()
        )
        assert sums.row(0) == (*exact, exact[1] - exact[0])
    for kind in ("whole", "operator", "module", "place"):
        sums = changes.filter(kind=kind, what="host").select("before_ns", "after_ns").sum()
        assert sums.row(0) == (12 * 6 * 10_000, 9 * 7 * 10_000)


def test_an_added_and_a_removed_kernel_are_named(compare):
    extra = Operator("decoder", "aten::softmax", "scale", 9_000)
    kept = tuple(operator for operator in OPERATORS if operator.kernel != "add")
    report, changes = compare(run_of(), run_of((*kept, extra)))
    assert (
        "kernel scale is new in decoder > aten::softmax: 9.00 us a step in 12 launches"
        in report.findings
    )
    assert (
        "kernel add is gone from encoder > aten::add: 20.00 us a step in 12 launches"
        in report.findings
    )
    assert only(changes, kind="place", operator="aten::add", what="device")["change_ns"] == -240_000
    assert changes.filter(kind="place", status="moved").is_empty()


def test_a_moved_operator_is_neither_added_nor_removed(compare):
    moved = OPERATORS[1]._replace(module="decoder", dur=41_000)
    report, changes = compare(run_of(), run_of((OPERATORS[0], *OPERATORS[2:], moved)))
    assert (
        "aten::gelu moved from encoder > aten::gelu to decoder > aten::gelu: 492.00 us instead of 480.00 us"
        in report.findings
    )
    assert set(changes.filter(pl.col("kind") == "place")["status"]) == {"both", "moved"}
    assert not any(" is new " in finding or " is gone " in finding for finding in report.findings)


def test_kernels_of_other_names_meet_by_their_place_in_the_call(compare):
    """As on another vendor's device: each operator's kernel is called otherwise."""
    other = tuple(operator._replace(kernel=f"hip_{operator.kernel}") for operator in OPERATORS)
    _, changes = compare(run_of(), run_of(other))
    places = changes.filter(kind="place", what="device")
    assert set(places["status"]) == {"replaced"}
    assert places.filter(operator="aten::gelu")["kernel"].to_list() == ["gelu -> hip_gelu"]
    assert places["change_ns"].to_list() == [0] * 6


def test_kernels_outside_of_all_ranges_meet_by_name_only(compare):
    """Their place says nothing: the one that is called otherwise is gone, and another is new."""
    before, after = run_of(), run_of()
    for tables in (before, after):
        tables["span"] = [span for span in tables["span"] if span["level"] == "step"]
    for kernel in after["kernel"]:
        kernel["name"] = kernel["name"].replace("gelu", "silu")
    _, changes = compare(before, after)
    status = dict(changes.filter(kind="place").select("kernel", "status").rows())
    assert (status["gelu"], status["silu"], status["gemm_a"]) == ("removed", "added", "both")


def test_runs_that_have_little_in_common_say_so(compare):
    other = tuple(
        operator._replace(name=f"my{operator.name}", kernel=f"my_{operator.kernel}")
        for operator in OPERATORS[:5]
    )
    report, _ = compare(run_of(), run_of((*other, OPERATORS[5])))
    share = 120 / 2000
    assert (
        report.findings[0]
        == f"only {share:.1%} of the time lies in call paths that both runs have: little of what follows compares like with like".replace(
            "%", " %"
        )
    )


def test_too_few_steps_claim_nothing(compare):
    report, changes = compare(
        run_of(steps=3), run_of(changed("aten::mm", "gemm_b", dur=900_000), steps=3)
    )
    assert "significant" not in set(changes["verdict"])
    said = "3 and 3 steps are too few to tell any change from chance: what differs was observed, and no more can be claimed"
    assert said in report.findings
    assert (
        "aten::mm takes 900.00 us a step instead of 500.00 us, 400.00 us more, untested, in kernel gemm_b"
        in report.findings
    )


def test_without_steps_whole_runs_are_compared_and_nothing_is_claimed(compare):
    runs = run_of(), run_of(changed("aten::mm", "gemm_b", dur=900_000))
    for tables in runs:
        tables["span"] = [span for span in tables["span"] if span["level"] != "step"]
    report, _ = compare(*runs)
    assert (
        report.findings[0]
        == "device time in all is 16.80 ms instead of 12.00 ms, 4.80 ms (40.0 %) more, untested"
    )
    assert report.findings[2].startswith("0 and 0 steps are too few")


@pytest.mark.parametrize("seed", range(8))
def test_runs_of_one_noise_differ_in_nothing(compare, seed):
    """Noise of 10 %; benchmarks/diff_power.py counts over many seeds."""
    runs = (run_of(noise=0.1, seed=2 * seed + n) for n in (0, 1))
    report, changes = compare(*runs)
    assert "significant" not in set(changes["verdict"])
    assert report.findings[-1].startswith("none of ")


def test_ranks_of_one_run_are_compared(make_trace):
    ranks = [run_of(rank=0), run_of(changed("aten::gelu", "gelu", dur=50_000), rank=1)]
    tables = {table: [row for tables in ranks for row in tables[table]] for table in ranks[0]}
    trace = make_trace(**tables)
    report = pasta.run("diff", runs={"before": trace, "after": trace}, before_rank=0, after_rank=1)
    assert (
        report.findings[3]
        == "aten::gelu takes 50.00 us a step instead of 40.00 us, 10.00 us more, more than chance, in kernel gelu"
    )


def test_ranks_of_a_step_add_up_and_the_slowest_makes_it(compare):
    runs = []
    for slow in (40_000, 48_000):
        ranks = [run_of(), run_of(changed("aten::gelu", "gelu", dur=slow), rank=1)]
        ranks[1]["span"] = [
            span | {"dur": span["dur"] + slow * (span["level"] == "step")}
            for span in ranks[1]["span"]
        ]
        runs.append(
            {table: [row for tables in ranks for row in tables[table]] for table in ranks[0]}
        )
    _, changes = compare(*runs)
    gelu = only(changes, kind="kernel", operator="aten::gelu")
    assert (gelu["before_step_ns"], gelu["after_step_ns"], gelu["verdict"]) == (
        80_000,
        88_000,
        "significant",
    )
    step = only(changes, kind="step")
    assert (step["before_step_ns"], step["after_step_ns"]) == (1_940_000, 1_948_000)


def test_a_call_that_launches_many_kernels_counts_each_once(compare):
    """As a graph does: the call of gelu launches three kernels of one time of launch."""
    before, after = run_of(), run_of()
    for tables, names in ((before, "abc"), (after, "abd")):
        gelus = [kernel for kernel in tables["kernel"] if kernel["name"] == "gelu"]
        tables["kernel"] += [
            kernel | {"launch_id": 1000 * n + kernel["launch_id"], "name": name}
            for kernel in gelus
            for n, name in enumerate(names, start=1)
        ]
    _, changes = compare(before, after)
    places = changes.filter(kind="place", what="device", operator="aten::gelu")
    assert sorted(places.select("kernel", "status", "before_ns", "after_ns").rows()) == [
        ("a", "both", 480_000, 480_000),
        ("b", "both", 480_000, 480_000),
        ("c -> d", "replaced", 480_000, 480_000),
        ("gelu", "both", 480_000, 480_000),
    ]


def test_sets_of_runs_are_compared(make_trace):
    """Two recordings of 5 steps on each side say what one of 5 cannot."""
    slower = changed("aten::gelu", "gelu", dur=50_000)
    runs = {
        f"{name}.{n}": make_trace(f"{name}{n}", **run_of(operators, steps=5))
        for name, operators in (("before", OPERATORS), ("after", slower))
        for n in (1, 2)
    }
    said = "aten::gelu takes 50.00 us a step instead of 40.00 us, 10.00 us more, more than chance, in kernel gelu"
    assert said in pasta.run("diff", runs=runs).findings
    few = pasta.run("diff", runs={"before": runs["before.1"], "after": runs["after.1"]}).findings
    assert said.replace("more than chance", "untested") in few


def recordings(make_trace, side, operators, speeds, steps):
    """Traces of one side, of which each is slower or faster as a whole, as by its clocks."""
    for n, speed in enumerate(speeds, start=1):
        tables = run_of(operators, steps=steps, noise=0.01, seed=100 * n + len(side))
        for kernel in tables["kernel"]:
            kernel["dur"] = round(kernel["dur"] * speed)
        yield f"{side}.{n}", make_trace(f"{side}{n}", **tables)


def test_what_differs_from_run_to_run_is_seen_by_run_only(make_trace):
    """Steps of one recording are alike; two recordings of each side say nothing."""
    runs = dict(
        [
            *recordings(make_trace, "before", OPERATORS, (1.0, 1.01), 12),
            *recordings(make_trace, "after", OPERATORS, (1.05, 1.04), 12),
        ]
    )
    by_step, by_run = (pasta.run("diff", runs=runs, by_run=by_run) for by_run in (False, True))
    assert any("more than chance" in finding for finding in by_step.findings)
    assert not any("more than chance" in finding for finding in by_run.findings)
    assert (
        "2 and 2 runs are too few to tell any change from chance: what differs was observed, and no more can be claimed"
        in by_run.findings
    )


def test_a_change_beyond_what_differs_from_run_to_run_is_found_by_run(make_trace):
    speeds = [1 + n / 100 for n in range(9)]
    slower = changed("aten::mm", "gemm_b", dur=600_000)
    runs = dict(
        [
            *recordings(make_trace, "before", OPERATORS, speeds, 2),
            *recordings(make_trace, "after", slower, speeds, 2),
        ]
    )
    report = pasta.run("diff", runs=runs, by_run=True)
    assert report.tables["kernels"].filter(verdict="significant")["operator"].to_list() == [
        "aten::mm"
    ]
    row = report.tables["kernels"].filter(operator="aten::mm", match="gemm_b").row(0, named=True)
    assert (row["units_before"], row["units_after"], row["steps_before"]) == (9, 9, 18)


def test_one_run_is_nothing_to_compare(make_trace):
    trace = make_trace(**run_of())
    assert pasta.run("diff", trace=trace).findings == [
        "there is nothing to compare: name two runs, --run before=DIR --run after=DIR"
    ]


@pytest.mark.parametrize("inner", [False, True])
def test_steps_within_steps_count_once(compare, inner):
    """Where each profiler step holds a step of the program, there are 12 steps, not 24."""

    def with_steps(run):
        outer = [span for span in run["span"] if span["level"] == "step"]
        within = [
            {**span, "span_id": 900_001 + n, "name": "step", "ts": span["ts"] + 50, "dur": 900_000}
            for n, span in enumerate(outer)
        ]
        return {**run, "span": run["span"] + within * inner}

    _, changes = compare(
        *map(with_steps, (run_of(), run_of(changed("aten::gelu", "gelu", dur=47_000))))
    )
    step = only(changes, kind="step")
    assert (step["steps_before"], step["steps_after"], step["verdict"]) == (12, 12, "as chance")
    whole = only(changes, kind="whole", what="device")
    assert (whole["change_step_ns"], whole["verdict"]) == (7_000, "significant")


def test_different_numbers_of_ranks_are_told(make_trace):
    both = {table: [{**row, "rank": rank} for rank in (0, 1) for row in rows] for table, rows in run_of().items()}  # fmt: skip
    runs = {"before": make_trace("before", **both), "after": make_trace("after", **run_of())}
    report = pasta.run("diff", runs=runs)
    assert report.facts == {"ranks_before": 2, "ranks_after": 1}
    assert report.findings[0].startswith("the runs have 2 and 1 ranks, and all of them count")
    one = pasta.run("diff", runs=runs, before_rank=1)
    assert one.facts == {"ranks_before": 1, "ranks_after": 1}
    assert not any("all of them count" in text for text in one.findings)


def test_different_numbers_of_ranks_are_told_of_a_trace_for_each(make_trace):
    """Recordings of the same rank are no further ranks."""
    rank = [make_trace(f"rank{n}", **run_of(rank=n)) for n in (0, 1)]
    missing = {"before.1": rank[0], "before.2": rank[1], "after.1": rank[0], "after.2": rank[0]}
    report = pasta.run("diff", runs=missing)
    assert report.facts == {"ranks_before": 2, "ranks_after": 1}
    assert report.findings[0].startswith("the runs have 2 and 1 ranks, and all of them count")
    whole = pasta.run("diff", runs={**missing, "after.2": rank[1]})
    assert whole.facts == {"ranks_before": 2, "ranks_after": 2}
    assert not any("all of them count" in text for text in whole.findings)
