"""`kernel_sequences` on planted sequences among noise, and against a count by hand on real profiles."""

from __future__ import annotations

import random

import polars as pl
import pytest

import pasta
from pasta.testing import write_trace
from tests.pipeline.stages.test_sequences import counted


def run_of(seed: int, *, planted: bool) -> list[dict[str, object]]:
    """Two hundred kernels of random names, back to back; `planted`: 30 times `a`, `b`, `c` with gaps of 40 us."""
    noise = random.Random(seed)
    kernels, at = [], 0
    names = [f"k{noise.randrange(10**6)}" for _ in range(200)]
    for number, name in enumerate(names):
        group = ["a", "b", "c"] if planted and number % 6 == 0 and number < 180 else []
        for each in [*group, name]:
            at += 40_000 if each in ("b", "c") else noise.randrange(1_000)
            dur = noise.randrange(10_000, 20_000)
            kernels.append({"device": 0, "stream": 7, "launch_id": len(kernels) + 1, "ts": at, "dur": dur, "name": each})  # fmt: skip
            at += dur
    return kernels


def test_a_planted_sequence_is_found_in_every_seed_and_nothing_in_a_clean_run(tmp_path):
    """Names of a seed are its own, so that what is found in one trace is not found for another."""
    runs = {
        (seed, planted): [{**row, "name": f"{row['name']} of {seed}"} for row in run_of(seed, planted=planted)]
        for seed in range(100)
        for planted in (True, False)
    }  # fmt: skip
    traces = {
        which: write_trace(tmp_path / f"{which}", kernel=rows) for which, rows in runs.items()
    }
    report = pasta.run("kernel_sequences", trace=[traces[seed, True] for seed in range(100)], top=10**6)  # fmt: skip
    rows = report.tables["by_gap"]
    assert set(rows["sequence"]) == {f"a of {n} > b of {n} > c of {n}" for n in range(100)}
    assert rows.select("times", "gap_ns").unique().rows() == [(30, 30 * 80_000)]
    assert rows.height == 100
    assert report.findings[0].startswith("between the 3 kernels of a of ")
    assert "which run 30 times, the stream stands still for 2.40 ms" in report.findings[0]
    clean = pasta.run("kernel_sequences", trace=[traces[seed, False] for seed in range(100)])
    assert clean.findings == ["no kernels with a duration follow each other in the same order 5 times or more, with no longer gap than counts (--set gap=...)"]  # fmt: skip


def test_a_sequence_of_long_names_is_told_by_its_ends(make_trace):
    names = [f"void {name}<{'float, ' * 15}int>" for name in ("first", "second", "third")]
    kernels = [{"device": 0, "stream": 7, "launch_id": n, "ts": 100 * n, "dur": 50, "name": names[n % 3]} for n in range(30)]  # fmt: skip
    report = pasta.run("kernel_sequences", trace=make_trace(kernel=kernels), longest=3)
    assert report.findings[0].startswith("between the 3 kernels from void first<float")
    assert " to void third<float" in report.findings[0]
    assert report.tables["by_gap"].row(0, named=True)["last"] == names[2]


def test_a_longer_gap_ends_a_sequence(make_trace):
    trace = make_trace(kernel=run_of(1, planted=True))
    assert pasta.run("kernel_sequences", trace=trace, gap=39_999).tables["by_gap"].height == 0
    assert pasta.run("kernel_sequences", trace=trace, gap=40_000).tables["by_gap"].height == 1


@pytest.mark.parametrize("sample", ["tracelens_b200_eager_rank0of8", "tracelens_mi300_bert_small", "hta_mi250_minitoy_rocm6.2"])  # fmt: skip
def test_real_profiles(samples, sample):
    trace = pasta.open(samples / "kineto" / f"{sample}.json.gz")
    report = pasta.run("kernel_sequences", trace=trace, longest=5, times=2, top=10**6)
    lanes = trace.scan("kernel").with_columns(id="launch_id", lane=pl.struct("device", "context", "stream").rank("dense"))  # fmt: skip
    rows = lanes.select(pl.col("lane").alias("rank"), "name", "ts", "dur", "id").collect().to_dicts()  # fmt: skip
    sums: dict[tuple[str, int], list[int]] = {}
    for _, length, text, *values in counted(rows, 5, 2, 100_000):
        old = sums.get((text, length), [0, 0, 0])
        sums[text, length] = [a + b for a, b in zip(old, values, strict=True)]
    found = report.tables["by_time"].select("sequence", "length", "times", "time_ns", "gap_ns")
    assert {row[:2]: list(row[2:]) for row in found.rows()} == sums


def test_a_loop_that_is_longer_than_the_longest_sequence_is_found(make_trace):
    loop = [{"device": 0, "stream": 7, "launch_id": n + 1, "ts": n * 10, "dur": 8, "name": f"k{n % 12:02}"} for n in range(600)]  # fmt: skip
    report = pasta.run("kernel_sequences", trace=make_trace(kernel=loop))
    rows = report.tables["by_time"].select("length", "times").rows()
    assert rows == [(8, 50)] * 5 + [(8, 49)] * 7


def test_one_kernel(make_trace):
    one = make_trace(kernel=run_of(1, planted=False)[:1])
    assert pasta.run("kernel_sequences", trace=one).tables["by_gap"].height == 0
