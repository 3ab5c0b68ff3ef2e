"""`variability_causes` on planted causes, and on noise, of which it claims nothing."""

from __future__ import annotations

import polars as pl
import pytest

import pasta
from pasta.testing import write_trace
from pasta.tools.report import ChartPart
from tests.tools.varied_run import EPOCH, PERIOD, varied_run

SEEDS = 100


@pytest.fixture
def planted(tmp_path):
    """Run the tool on runs of several seeds, all with the same cause."""

    def run(seeds=SEEDS, metric=None, **cause):
        traces = []
        for seed in range(seeds):
            tables = varied_run(seed, **{"rounds": 50, **cause})
            extra = {} if metric is None else {"metric": metric}
            traces.append(write_trace(tmp_path / f"{seed}", **tables, **extra).path)
        return pasta.run("variability_causes", trace=traces)

    return run


def claims(report):
    """Return the causes that are claimed, with the number of runs in which they are."""
    directed = report.tables["ranked"].filter(pl.col("verdict") == "directed")
    return dict(directed.group_by("first").agg(pl.len()).rows())


def test_nothing_is_claimed_of_noise(planted):
    """Copies run beside a tenth of the kernels of one rank, and slow none of them."""
    report = planted(SEEDS, copies=(1, 0.1, 1.0), rounds=20)
    assert claims(report) == {}
    assert report.findings[0].startswith("0: no claim: no condition goes with the durations of")


def test_copies_that_slow_kernels(planted):
    report = planted(copies=(1, 0.1, 1.3))
    assert claims(report) == {"copies": SEEDS}
    assert "launches take longer with more of 'copies', also while" in report.findings[0]
    assert report.tables["ranked"].filter(first="copies")["partial"].min() > 0.5


def test_a_drift_of_time(planted):
    """The streams of the rank are idle for less time in its slow half, so that this goes with durations too."""
    report = planted(slow_rounds=(1, range(25, 50), 1.1))
    assert claims(report)["time"] == SEEDS
    assert claims(report).keys() <= {"time", "idle_before"}
    assert "with more of 'time'" in report.findings[0]


def test_a_clock_that_is_lowered_for_a_while(planted):
    """Rounds 20 to 29 of both ranks are slow, while the clock of their device is low."""
    readings = [
        {"rank": 0, "pid": 1, "device": 0, "name": "sm_clock", "unit": "MHz"}
        | {"ts": EPOCH + n * PERIOD, "value": 1200.0 if 20 <= n < 30 else 1700.0}
        for n in range(50)
    ]
    report = planted(metric=readings, ranks=1, slow_rounds=(0, range(20, 30), 1.1))
    assert claims(report) == {"clock": SEEDS}
    assert "launches take less time with more of 'clock'" in report.findings[0]


def test_few_launches_allow_no_claim(planted):
    report = planted(1, rounds=5, ranks=1)
    assert claims(report) == {}
    assert "no claim: 38 launches in 38 blocks: too few" in report.findings


def test_what_does_not_vary_needs_no_explanation(planted):
    report = planted(1, noise=0.0)
    assert report.findings == ["no kernel and configuration with 8 launches or more varies: there is nothing to explain"]  # fmt: skip


def test_what_does_not_vary_is_said_in_one_line(planted):
    report = planted(1, ranks=1, streams=1, rounds=100)
    (line,) = [finding for finding in report.findings if finding.startswith("nothing is said")]
    assert line == (
        "nothing is said of clock, communication, copies, other_kernels, power, queued:"
        " the same for all launches, or known of less than half of them"
    )
    assert (
        "of 400 launches 1 is left out, since queued, idle_before, clock or power is not known of them"
        in report.findings
    )


def test_unknown_is_not_zero(planted):
    """The clock is known from the middle of the fast time on: before that it may not pass for 0."""
    readings = [
        {"rank": 0, "pid": 1, "device": 0, "name": "sm_clock", "unit": "MHz"}
        | {"ts": EPOCH + n * PERIOD, "value": 1200.0 if 40 <= n < 60 else 1700.0}
        for n in range(20, 80)
    ]
    report = planted(1, metric=readings, ranks=1, streams=1, rounds=80, slow_rounds=(0, range(40, 60), 1.1))  # fmt: skip
    assert claims(report) == {"clock": 1}
    assert report.tables["ranked"]["rows"].unique().to_list() == [60 * 4 - 1]
    assert "launches take less time with more of 'clock'" in report.findings[0]


def test_how_long_a_kernel_of_a_graph_waited_is_unknown(make_trace):
    """Calls launch two kernels each, of which the second waits for the first: no queue makes it slow."""
    kernels, calls = [], []
    for n in range(200):
        call = EPOCH + n * PERIOD
        calls.append({"tid": 1, "ts": call, "dur": 10, "name": "cudaGraphLaunch", "correlation": n + 1})  # fmt: skip
        for place, at in enumerate((1_000, 50_000)):
            dur = 10_000 + 100 * (n % 7) + 3_000 * place
            kernels.append({"device": 0, "stream": 7, "ts": call + at, "dur": dur, "name": "gemm", "correlation": n + 1})  # fmt: skip
    report = pasta.run("variability_causes", trace=make_trace(kernel=kernels, call=calls))
    ranked = report.tables["ranked"]
    assert ranked.filter(first="queued")["verdict"].item() == "no variance"


def test_launches_that_are_alike_are_one_line(planted):
    """Parallel coordinates of all launches whose conditions are known, and far fewer lines than launches."""
    report = planted(1, copies=(1, 0.1, 1.3))
    (chart,) = (part for part in report.parts if isinstance(part, ChartPart))
    lines = chart.rows
    assert lines["launches"].sum() == report.tables["ranked"]["rows"].max() == 796
    assert lines.height < 200
    longer = lines.filter(takes="a tenth longer than the median, or more")
    assert longer.filter(pl.col("in_copies") > 0)["launches"].sum() > 0.9 * longer["launches"].sum()
    assert lines["time_share"].is_between(0, 1).all()
    assert (lines["off_ns"] == lines["off_ns"].sort(descending=True)).all()
    few = pasta.run("variability_causes", trace=report.sources["0"], lines=3)
    assert [part.rows.height for part in few.parts if isinstance(part, ChartPart)] == [3]
