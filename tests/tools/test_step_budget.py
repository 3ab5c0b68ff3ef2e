"""`step_budget`: parts that add up, against a count of every nanosecond, and planted losses found by name."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest

import pasta
from pasta.testing import write_trace
from tests.tools.ranks_run import ranks_run
from tests.tools.steps_run import LOADER, steps_run

PARTS = ("compute", "transfer", "wait", "communication", "copy", "launch_gap", "data", "synchronisation", "host", "other")  # fmt: skip
DAY = 200


def random_rank(rank: int, seed: int) -> dict[str, list[dict[str, Any]]]:
    """Return a rank that does anything at any time of 200 ns; its thread 2 launches nothing."""
    random = np.random.default_rng(seed)

    def pick(most: int) -> tuple[int, int]:
        return int(random.integers(DAY)), int(random.integers(most))

    common = {"rank": rank, "pid": 7}
    tables: dict[str, list[dict[str, Any]]] = {"span": [], "call": [], "kernel": [], "copy": [], "collective": []}  # fmt: skip
    for number in range(1, 13):
        ts, dur = pick(15)
        work = {**common, "device": 0, "ts": ts, "dur": dur, "correlation": number * int(random.random() < 0.8)}  # fmt: skip
        call = {**common, "tid": 1, "ts": max(0, ts - int(random.integers(1, 20))), "dur": int(random.integers(1, 9))}  # fmt: skip
        tables["call"].append({**call, "correlation": number, "name": "cudaLaunchKernel"})
        if number % 4 == 0:
            tables["copy"].append({**work, "kind": "HtoD"})
            continue
        tables["kernel"].append({**work, "launch_id": number, "name": f"k{number}"})
        if number % 4 == 1:
            tables["collective"].append({**common, "launch_id": number, "ts": ts, "dur": dur})
    for number, (name, level) in enumerate([("step", "step")] * 3 + [(LOADER, "annotation"), ("aten::mm", "operator")] * 3, start=1):  # fmt: skip
        ts, dur = pick(60)
        dur += level == "step"
        tid = 1 if level == "step" else int(random.integers(1, 3))
        tables["span"].append({**common, "tid": tid, "ts": ts, "dur": dur, "span_id": number, "name": name, "level": level})  # fmt: skip
    for tid in (1, 2):
        ts, dur = pick(40)
        tables["call"].append({**common, "tid": tid, "ts": ts, "dur": dur, "correlation": 0, "name": "cudaStreamSynchronize"})  # fmt: skip
    return tables


def counted(tables: dict[str, list[dict[str, Any]]]) -> dict[int, Counter[str]]:
    """Return what each nanosecond of each step, by its begin, is spent on: the definition, word by word."""
    works = tables["kernel"] + tables["copy"]
    communication = {row["launch_id"] for row in tables["collective"]}
    calls = {row["correlation"]: row["ts"] for row in tables["call"] if row["correlation"]}
    launched = {id(work): calls.get(work["correlation"]) for work in works}

    def lasts(row: dict[str, Any], now: int) -> bool:
        return row["ts"] <= now < row["ts"] + row["dur"]

    def part(now: int) -> str:
        running = [work for work in works if lasts(work, now)]
        if any(w.get("launch_id") and w["launch_id"] not in communication for w in running):
            return "compute"
        if any(w.get("launch_id") for w in running):
            return "communication"
        if running:
            return "copy"
        if any(launched[id(w)] is not None and launched[id(w)] <= now < w["ts"] for w in works):
            return "launch_gap"
        open_now = [r for r in tables["span"] + tables["call"] if lasts(r, now) and r["tid"] == 1]  # fmt: skip
        if any(row["name"] == LOADER for row in open_now):
            return "data"
        if any("Synchronize" in row["name"] for row in open_now):
            return "synchronisation"
        following = min((work["ts"] for work in works if work["ts"] > now), default=None)
        if any(launched[id(w)] is not None for w in works if w["ts"] == following):
            return "host"
        return "host" if any(r.get("level") == "operator" or "level" not in r for r in open_now) else "other"  # fmt: skip

    spans = [row for row in tables["span"] if row["level"] == "step"]
    outer = [s for s in spans if not any(contains(other, s) for other in spans)]
    begins = sorted({s["ts"]: s for s in sorted(outer, key=lambda s: s["dur"])}.values(), key=lambda s: s["ts"])  # fmt: skip
    ends = [min(s["ts"] + s["dur"], n["ts"]) for s, n in pairwise(begins)]
    ends += [s["ts"] + s["dur"] for s in begins[-1:]]
    return {
        s["ts"]: Counter(part(now) for now in range(s["ts"], end))
        for s, end in zip(begins, ends, strict=True)
        if end > s["ts"]
    }


def contains(outer: dict[str, Any], inner: dict[str, Any]) -> bool:
    if outer is inner:
        return False
    a, b = outer["ts"], outer["ts"] + outer["dur"]
    c, d = inner["ts"], inner["ts"] + inner["dur"]
    return a <= c and d <= b and (a, b) != (c, d) and d > c


def test_every_nanosecond_is_in_the_part_that_the_page_defines(tmp_path):
    ranks = [random_rank(rank, seed=rank) for rank in range(60)]
    tables = {name: [row for rank in ranks for row in rank[name]] for name in ranks[0]}
    found = pasta.run("step_budget", trace=write_trace(tmp_path / "t", **tables)).tables["steps"]
    for rank, tables in enumerate(ranks):
        for begin, parts in counted(tables).items():
            rows = found.filter(rank=rank, begin_ns=begin).to_dicts()
            assert [{part: row[f"{part}_ns"] for part in PARTS} for row in rows] == [
                {part: parts[part] for part in PARTS}
            ]
            assert rows[0]["step_ns"] == parts.total()
    assert found.height == sum(len(counted(tables)) for tables in ranks)


def reported(tmp_path, seeds: range, **planted: Any) -> pasta.Report:
    """Run the tool on a trace for each seed."""
    traces = [write_trace(tmp_path / str(seed), **steps_run(seed, **planted)) for seed in seeds]
    return pasta.run("step_budget", trace=traces)


def test_nothing_is_found_in_clean_runs(tmp_path):
    report = reported(tmp_path, range(100), noise=0.05)
    assert len(report.findings) == 1
    assert report.findings[0].startswith("of ")
    assert report.tables["slow"].is_empty()
    assert report.tables["heavy"].is_empty()
    steps = report.tables["steps"]
    assert steps.height == 100 * 3 * 8
    assert (steps["step_ns"] == steps.select(pl.sum_horizontal(f"{part}_ns" for part in PARTS)).to_series()).all()  # fmt: skip


@pytest.mark.parametrize(
    ("planted", "part", "cause"),
    [
        ("data", "data", LOADER),
        ("host", "host", "aten::gelu"),
        ("communication", "communication", "nccl:all_reduce"),
        ("copy", "copy", "HtoD copy of aten::to"),
        ("compute", "compute", "aten::mm"),
    ],
)
def test_one_slow_step_is_found_and_named(tmp_path, planted, part, cause):
    report = reported(tmp_path, range(100), **{planted: {(1, 5): 400_000}})
    slow = report.tables["slow"]
    assert slow.select("rank", "step", "part").unique().rows() == [(1, "ProfilerStep#5", part)]
    assert slow["trace"].n_unique() == slow.height == 100
    assert slow["cause"].unique().to_list() == [cause]
    assert slow["more_part_ns"].is_between(350_000, 450_000).all()
    assert "ProfilerStep#5 of rank 1 takes" in " ".join(report.findings)


@pytest.mark.parametrize(
    ("planted", "text"),
    [
        ("data", f"the device waits for data: {{}} in {LOADER}"),
        ("host", "the device has nothing to run until the host launches more: {} before aten::gelu"),
        ("communication", "communication runs that no computation hides: {} in nccl:all_reduce"),
        ("copy", "copies run that no kernel hides: {} in HtoD copy of aten::to"),
    ],
)  # fmt: skip
def test_what_every_step_loses_is_named(tmp_path, planted, text):
    everywhere = {(rank, step): 400_000 for rank in range(3) for step in range(8)}
    trace = write_trace(tmp_path / "t", **steps_run(3, **{planted: everywhere}))
    report = pasta.run("step_budget", trace=trace)
    before, after = text.split("{}")
    assert report.findings[1].startswith(before)
    assert report.findings[1].endswith(after)
    assert 0.25 < report.tables["losses"]["won_share"][0] < 0.40
    assert report.tables["slow"].is_empty()
    assert report.tables["heavy"].is_empty()


@pytest.mark.parametrize(("peak", "text"), [(1e12, ": 4.0 % of"), (1e9, ": 4000.0 % of"), (0.0, "cannot be told: no peak of fp32")])  # fmt: skip
def test_work_that_shapes_tell_is_compared_with_the_peak(tmp_path, peak, text):
    """Two ranks multiply matrices in each of two steps of 1 ms; one does so three times as often."""
    tables: dict[str, list[dict[str, Any]]] = {"span": [], "kernel": []}
    for rank, step in [(0, 0), (0, 1), (1, 0), (1, 1)]:
        common, begin = {"rank": rank, "pid": 7 + rank}, step * 1_000_000
        tables["kernel"].append({**common, "device": 0, "ts": begin, "dur": 400_000, "launch_id": step + 1, "name": "gemm"})  # fmt: skip
        tables["span"].append({**common, "tid": 1, "ts": begin, "dur": 1_000_000, "span_id": 10 * step + 1, "level": "step", "name": f"step {step}"})  # fmt: skip
        for n in range(1 + 2 * rank):
            tables["span"].append({**common, "tid": 1, "ts": begin + 10 + 100 * n, "dur": 50, "span_id": 10 * step + 2 + n, "level": "operator", "name": "aten::mm", "input_shapes": ["100x1000", "1000x100"], "input_types": ["float"] * 2})  # fmt: skip
    report = pasta.run("step_budget", trace=write_trace(tmp_path / "t", **tables), peak_flops=peak)
    one = 2 * 100 * 1000 * 100 / 1e-3 / peak if peak else None
    expected = {0: one, 1: one and 3 * one}
    for table, rows in (("steps", 4), ("ranks", 2)):
        found = report.tables[table]
        assert found.height == rows
        assert all(share == pytest.approx(expected[rank]) for rank, share in found.select("rank", "utilisation_share").rows())  # fmt: skip
    assert report.findings[1].startswith(
        "matrix products, attention and convolutions do 40.00 Gflop/s"
    )
    assert text in report.findings[1]
    two = [write_trace(tmp_path / name, **tables) for name in ("first", "second")]
    found = pasta.run("step_budget", trace=two, peak_flops=peak).findings
    named = [finding.partition(": ")[0] for finding in found if "matrix products" in finding]
    assert named == ["first", "second"]


def test_a_rank_that_computes_more_stands_out(tmp_path):
    report = reported(tmp_path, range(100), compute={(2, step): 300_000 for step in range(8)})
    heavy = report.tables["heavy"]
    assert heavy.select("rank", "part").unique().rows() == [(2, "compute")]
    assert heavy["trace"].n_unique() == heavy.height == 100
    assert "rank 2 needs" in " ".join(report.findings)


def test_waiting_for_the_last_rank_is_told_from_transfer(tmp_path):
    """Rank 2 comes late to each allreduce; until it begins the others wait, then all transfer."""
    tables = ranks_run(1, ranks=4, steps=6, late={2: 300_000})
    met = pl.DataFrame(tables["collective"]).with_columns(last=pl.col("ts").max().over("sequence"))
    met = met.with_columns(wait=pl.min_horizontal("dur", pl.col("last") - pl.col("ts")))
    report = pasta.run("step_budget", trace=write_trace(tmp_path / "t", **tables))
    steps = report.tables["steps"]
    assert steps.height == 4 * 6
    for row in steps.to_dicts():
        within = met.filter(
            pl.col("rank") == row["rank"],
            pl.col("ts").is_between(row["begin_ns"], row["begin_ns"] + row["step_ns"]),
        )
        assert within.height == 3
        assert row["wait_ns"] == within["wait"].sum()
        assert row["transfer_ns"] == within["dur"].sum() - within["wait"].sum()
        assert row["communication_ns"] == 0
        assert row["step_ns"] == sum(row[f"{part}_ns"] for part in PARTS)
    told = [text for text in report.findings if text.startswith("ranks wait in communication")]
    assert len(told) == 1
    assert told[0].endswith("in allreduce, for rank 2")


def test_what_no_other_rank_does_is_not_split(tmp_path):
    everywhere = {(rank, step): 400_000 for rank in range(3) for step in range(8)}
    trace = write_trace(tmp_path / "t", **steps_run(3, communication=everywhere))
    report = pasta.run("step_budget", trace=trace)
    assert report.tables["steps"].select(pl.sum("transfer_ns", "wait_ns")).row(0) == (0, 0)
    assert any("are not split into transfer and waiting" in text for text in report.findings)


def test_a_run_without_steps_is_one_step_and_that_is_said(tmp_path):
    tables = steps_run(0, ranks=1)
    tables["span"] = [row for row in tables["span"] if row["level"] != "step"]
    report = pasta.run("step_budget", trace=write_trace(tmp_path / "t", **tables))
    (row,) = report.tables["steps"].to_dicts()
    rows = tables["kernel"] + tables["call"]
    assert row["begin_ns"] == min(row["ts"] for row in rows)
    assert row["step_ns"] == max(row["ts"] + row["dur"] for row in rows) - row["begin_ns"]
    assert row["step"] == "the whole run"
    assert any("the whole run of each counts as one step" in text for text in report.findings)


def test_kernels_alone_say_when_but_not_why(tmp_path):
    kernels = [{"device": 0, "launch_id": n, "ts": 100 * n, "dur": 60, "name": "k"} for n in (1, 2)]
    report = pasta.run("step_budget", trace=write_trace(tmp_path / "t", kernel=kernels))
    (row,) = report.tables["steps"].to_dicts()
    assert (row["step_ns"], row["compute_ns"], row["other_ns"]) == (160, 120, 40)
    assert report.findings[1] == "the device stands still and nothing recorded tells why: 40 ns, 25.0 % of the steps, of which 40 ns before k"  # fmt: skip


@pytest.mark.parametrize(
    "file",
    [
        "nsys_sqlite/nsysai_h100_2gpu_1s_schema3.25.sqlite",
        "rocprofv3/tracelens_908_results.json.gz",
        "kineto/tracelens_mi210_gpu_only.json.gz",
    ],
)
def test_whole_runs_of_samples_compute_as_long_as_device_time_says(samples, file):
    steps = pasta.run("step_budget", trace=samples / file).tables["steps"]
    devices = pasta.run("device_time", trace=samples / file).tables["devices"]
    mine = steps.sort("rank", "device").select("rank", "device", "compute_ns", "copy_ns", "step_ns")
    assert mine["compute_ns"].to_list() == devices.sort("rank", "device")["compute_ns"].to_list()
    assert (mine["copy_ns"].to_numpy() <= devices.sort("rank", "device")["copy_ns"].to_numpy()).all()  # fmt: skip
    assert (steps.select(pl.sum_horizontal(f"{part}_ns" for part in PARTS)).to_series() == steps["step_ns"]).all()  # fmt: skip
