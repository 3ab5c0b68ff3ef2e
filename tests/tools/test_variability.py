"""`variability` by hand, and planted causes, each found and named among noise, and nothing without them."""

from __future__ import annotations

import polars as pl
import pytest

import pasta
from pasta.testing import write_trace
from tests.tools.varied_run import EPOCH, varied_run

SEEDS = 100
PLACES = ("periods", "at.slow_devices", "at.slow_streams")


@pytest.fixture
def planted(tmp_path):
    """Run the tool on runs of several seeds, all with the same cause."""

    def run(seeds=SEEDS, **cause):
        runs = [varied_run(seed, **cause) for seed in range(seeds)]
        traces = [write_trace(tmp_path / f"{n}", **tables).path for n, tables in enumerate(runs)]
        return pasta.run("variability", trace=traces, top=100)

    return run


def launch(number, ts, dur, **columns):
    row = {"rank": 0, "pid": 1, "device": 0, "stream": 7, "launch_id": number, "name": "gemm"}
    grid = {"grid_x": 8, "grid_y": 1, "grid_z": 1, "block_x": 64, "block_y": 1, "block_z": 1}
    return {**row, **grid, "ts": ts, "dur": dur, **columns}


def test_by_hand(make_trace):
    """Of 8 launches of 100 to 106 ns and one of 400 the median is 104, the deviations 0, 1, 1, 2, 2, 2, 3, 4, 296.

    Another grid is another kind; what has fewer than 8 launches is not judged, and a collective waits.
    """
    durations = [100, 101, 102, 103, 104, 105, 106, 106, 400]
    kernels = [launch(n, 1_000 * n, dur) for n, dur in enumerate(durations, start=1)]
    kernels += [launch(20 + n, 50_000 + n, dur, grid_x=9) for n, dur in enumerate([10, 10, 900])]
    kernels += [launch(40 + n, 60_000 + 9 * n, 5, name="ncclDevKernel_AllReduce") for n in range(9)]
    kernels += [launch(60, 70_000, 9_000, name="ncclDevKernel_AllReduce"), launch(61, 0, None)]
    report = pasta.run("variability", trace=make_trace(kernel=kernels))
    (kernel,) = report.tables["kernels"].to_dicts()
    assert (kernel["launches"], kernel["outliers"], kernel["lost_ns"]) == (9, 1, 296)
    assert (kernel["median_ns"], kernel["scatter_ns"], kernel["quartile_range_ns"]) == (104, 2, 4)
    assert (kernel["grid"], kernel["block"]) == ("8 x 1 x 1", "64 x 1 x 1")
    assert report.facts["launches"] == 9 + 3 + 10
    assert report.facts["judged_launches"] == 9 + 10
    assert report.facts["communication_lost_ns"] == 9_000 - 5
    assert report.findings[0] == (
        "gemm, grid 8 x 1 x 1, block 64 x 1 x 1: of 9 launches 1 takes far longer than the median of 104 ns"
        ", a loss of 296 ns, 2.6 % of all kernel time; the longest takes 400 ns"
    )


def test_nothing_is_found_in_noise(planted):
    report = planted(SEEDS)
    assert [name for name in ("kernels", *PLACES) if report.tables[name].height] == []
    assert report.facts["launches"] == 160_000
    nothing = "no kernel, device, stream or time stands out in 1,600 launches; kernels and configurations: 4"  # fmt: skip
    assert report.findings[:5] == [
        f"{run}: {nothing}" for run in sorted(map(str, range(SEEDS)))[:5]
    ]
    assert report.findings[5] == f"... and {SEEDS - 5} more of this kind"
    assert "were not recorded" in report.findings[6]


def test_a_slow_rank(planted):
    report = planted(slow_rank={1: 1.05})
    slow = report.tables["at.slow_devices"]
    assert slow["trace"].n_unique() == slow.height == SEEDS
    assert set(slow["who"]) == {"rank 1"}
    assert slow["more_share"].is_between(0.04, 0.06).all()
    assert report.tables["at.slow_streams"].height == 0


def test_a_slow_stream(planted):
    report = planted(slow_stream={(1, 1): 1.05})
    slow = report.tables["at.slow_streams"]
    assert slow["trace"].n_unique() == slow.height == SEEDS
    assert slow.select("who", "stream").unique().rows() == [("rank 1", 8)]
    assert slow["more_share"].is_between(0.04, 0.06).all()
    assert report.tables["at.slow_devices"].height == 0


def test_a_slow_time(planted):
    """Rounds 40 to 59 of 100 are slow: from 4 to 6 ms after the first. Noise beside it may join."""
    report = planted(slow_rounds=(1, range(40, 60), 1.05))
    slow = report.tables["periods"].sort("trace", pl.col("more_ns"), descending=[False, True])
    longest = slow.group_by("trace", maintain_order=True).first()
    assert longest.height == SEEDS
    assert slow["begin"].max() < EPOCH + 6_000_000
    assert slow["end"].min() > EPOCH + 4_000_000
    assert set(slow["who"]) == {"rank 1"}
    assert set(longest["most_by"]) == {"gemm"}
    inside = pl.min_horizontal("end", EPOCH + 6_000_000) - pl.max_horizontal(
        "begin", EPOCH + 4_000_000
    )
    lasting = pl.col("end") - pl.col("begin")
    shares = longest.select(covered=inside / 2_000_000, within=inside / lasting)
    assert shares["covered"].min() > 0.7
    assert shares["within"].quantile(0.05) > 0.7
    assert shares["within"].min() > 0.6
    assert report.tables["at.slow_devices"].height == 0
    assert report.tables["at.slow_streams"].height == 0


def test_what_shards_add_up_is_whole(make_trace):
    """So the order in which workers end changes no digit."""
    time = make_trace("time", **varied_run(1, slow_rounds=(1, range(40, 60), 1.05)))
    rank = make_trace("rank", **varied_run(1, slow_rank={1: 1.05}))
    tables = pasta.run("variability", trace=[time, rank]).tables
    period, device = tables["periods"], tables["at.slow_devices"]
    assert period.height == device.height == 1
    sums = [*period.select("excess", "expected", "variance").row(0), device["variance"].item()]
    assert all(part > 0 and part % 1 == 0 for part in sums)


def test_a_slow_launch(planted):
    report = planted(slow_launch=(1, 50, 1.5))
    kernels = report.tables["kernels"]
    assert kernels.select("outliers", "name", "grid").unique().rows() == [(1, "gemm", "64 x 1 x 1")]
    assert kernels["trace"].n_unique() == kernels.height == SEEDS
    assert [name for name in PLACES if report.tables[name].height] == []


def test_runs_are_told_apart(make_trace):
    """What is little in all runs together may be much in one of them, and a run without durations says so."""
    loud = [launch(n, 1_000 * n, 500 if n == 9 else 100) for n in range(1, 21)]
    calm = [launch(n, 200_000 * n, 100_000) for n in range(1, 2_001)]
    untimed = [launch(n, 1_000 * n, None) for n in range(1, 9)]
    clock = {"device": 0, "ts": 1, "name": "sm_clock", "value": 1700.0}
    runs = {
        "calm": make_trace("calm", kernel=calm),
        "loud": make_trace("loud", kernel=loud, metric=[clock]),
        "untimed": make_trace("untimed", kernel=untimed),
    }
    report = pasta.run("variability", runs=runs)
    assert report.findings == [
        "loud: gemm, grid 8 x 1 x 1, block 64 x 1 x 1: of 20 launches 1 takes far longer than the median of 100 ns, a loss of 400 ns, 16.7 % of all kernel time; the longest takes 500 ns",
        "calm: no kernel, device, stream or time stands out in 2,000 launches; kernels and configurations: 1",
        "untimed: no kernel has a duration: nothing can be said",
        "calm: clocks, power and throttling were not recorded, so that they can be no explanation here: pasta collect --with nvml",
        "untimed: clocks, power and throttling were not recorded, so that they can be no explanation here: pasta collect --with nvml",
    ]
