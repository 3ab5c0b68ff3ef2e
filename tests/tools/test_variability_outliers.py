"""`variability_outliers` by hand, and with copies that slow kernels, first launches and none."""

from __future__ import annotations

import pytest

import pasta
from pasta.testing import write_trace
from tests.tools.varied_run import varied_run

SEEDS = 100


@pytest.fixture
def planted(tmp_path):
    """Run the tool on runs of several seeds, all with the same cause."""

    def run(seeds=SEEDS, **cause):
        runs = [varied_run(seed, **{"rounds": 50, **cause}) for seed in range(seeds)]
        traces = [write_trace(tmp_path / f"{n}", **tables).path for n, tables in enumerate(runs)]
        return pasta.run("variability_outliers", trace=traces, top=100)

    return run


def test_by_hand(make_trace):
    """Ten launches of 100 ns, one of 500 with a copy over its last 300 ns and a kernel over its first 50."""
    common = {"rank": 0, "pid": 1, "device": 0, "grid_x": 1, "block_x": 64}
    kernels = [
        {**common, "stream": 7, "ts": 1_000 * n, "dur": 100, "name": "gemm", "launch_id": n, "correlation": n}
        for n in range(10)
    ]  # fmt: skip
    kernels += [
        {**common, "stream": 7, "ts": 20_000, "dur": 500, "name": "gemm", "correlation": 50},
        {**common, "stream": 8, "ts": 19_990, "dur": 60, "name": "relu"},
    ]
    trace = make_trace(
        kernel=kernels,
        copy=[{**common, "ts": 20_200, "dur": 900, "kind": "HtoD", "stream": 9}],
        call=[{"rank": 0, "pid": 1, "tid": 1, "ts": 19_000, "dur": 5, "correlation": 50, "name": "launch"}],
        span=[{"rank": 0, "pid": 1, "tid": 1, "ts": 18_900, "dur": 200, "span_id": 1, "level": "step", "name": "step 3"}],
    )  # fmt: skip
    report = pasta.run("variability_outliers", trace=trace)
    (longest,) = report.tables["longest"].to_dicts()
    assert (longest["dur"], longest["median_ns"], longest["lost_ns"]) == (500, 100, 400)
    assert (longest["kernels_ns"], longest["copies_ns"], longest["communication_ns"]) == (
        50,
        300,
        0,
    )
    assert longest["beside"] == "kernels, copies"
    assert (longest["idle_ns"], longest["queued_ns"]) == (20_000 - 9_100, 1_000)
    assert (longest["before"], longest["step"]) == ("gemm", "step 3")
    assert report.findings == [
        "of 11 launches 1 is an outlier and loses 400 ns",
        "the longest loses 400 ns: gemm on stream 7 of rank 0, in step 3, takes 500 ns instead of 100 ns",
    ]


def test_copies_that_slow_kernels(planted):
    report = planted(copies=(1, 0.1, 1.4))
    causes = report.tables["causes"]
    found = causes.filter(causes["explained_share"] > 0.9)
    assert found["trace"].n_unique() == found.height == SEEDS
    assert set(found["condition"]) == {"copies beside them"}
    assert causes["explained_share"].drop_nulls().max() <= 1


def test_copies_that_slow_nothing_explain_nothing(planted):
    """A tenth of the kernels has copies beside them, and one launch is slow for another reason."""
    report = planted(copies=(1, 0.1, 1.0), slow_launch=(1, 20, 1.5))
    assert set(report.tables["longest"]["trace"]) == {f"{n}" for n in range(SEEDS)}
    assert report.tables["causes"]["explained_share"].null_count() == report.tables["causes"].height


def test_nothing_is_found_in_noise(planted):
    report = planted(SEEDS, copies=(1, 0.1, 1.0), rounds=20)
    nothing = "none of 320 launches is an outlier of its kernel and configuration"
    runs = sorted(map(str, range(SEEDS)))[:5]
    assert report.findings == [
        *(f"{run}: {nothing}" for run in runs),
        f"... and {SEEDS - 5} more of this kind",
    ]
    assert report.facts["launches"] == 32_000
    assert report.tables["causes"].height == 0


def test_durations_of_zero_count_and_a_graph_tells_no_queue(make_trace):
    """Nine of ten launches are shorter than a tick of the clock; the tenth is of a graph of two kernels, in no step."""
    common = {"device": 0, "stream": 7, "grid_x": 1, "block_x": 64}
    kernels = [{**common, "ts": 1_000 * n, "dur": 0, "name": "fill", "correlation": n} for n in range(1, 10)]  # fmt: skip
    kernels += [
        {**common, "ts": 20_000, "dur": 800, "name": "fill", "correlation": 50},
        {**common, "ts": 21_000, "dur": 5, "name": "other", "correlation": 50},
    ]
    calls = [{"tid": 1, "ts": 19_000, "dur": 5, "correlation": 50, "name": "cudaGraphLaunch"}]
    report = pasta.run("variability_outliers", trace=make_trace(kernel=kernels, call=calls))
    (longest,) = report.tables["longest"].to_dicts()
    assert (longest["lost_ns"], longest["median_ns"], longest["queued_ns"]) == (800, 0, None)
    assert report.findings == [
        "of 10 launches 1 is an outlier and loses 800 ns",
        "the longest loses 800 ns: fill on stream 7 of rank 0, in no step, takes 800 ns instead of 0 ns",
    ]
    spread = pasta.run("variability", trace=make_trace("again", kernel=kernels))
    assert spread.facts["judged_launches"] == report.facts["launches"]
