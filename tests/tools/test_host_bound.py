"""`host_bound` on gaps whose every nanosecond is known, and on random ones moment by moment."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest

import pasta
from pasta.testing import write_trace
from tests.tools.test_idle_causes import Rows, end, lasts, launched, random_tables, work

KERNELS = [work(n + 1, 100_000 * n, 10_000, name=f"k{n + 1}") for n in range(1, 5)]
"""Four kernels of 10 us, 90 us apart, from 100 us on."""

CALLS = [
    *(launched(row["correlation"], row["ts"] - 10_000, 5_000) for row in KERNELS),
    launched(0, 305_000, 45_000, "cudaDeviceSynchronize"),
]
SPANS = [
    {"tid": 1, "ts": ts, "dur": dur, "span_id": number, "level": level, "name": name}
    for number, (ts, dur, level, name) in enumerate(
        [
            (112_000, 87_000, "module", "Block_0"),
            (120_000, 20_000, "operator", "aten::outer"),
            (125_000, 10_000, "operator", "aten::inner"),
            (160_000, 37_000, "operator", "aten::last"),
        ],
        start=1,
    )
]
FRAMES = [
    {"stack_id": stack, "depth": depth, "function": name, "file": "a.py", "line": 3, "language": "python", "library": ""}
    for stack, inner in ((1, "wait_lock"), (2, "compute"))
    for depth, name in enumerate(["main", inner])
]  # fmt: skip
SAMPLES = [
    {"tid": 1, "ts": 220_000, "dur": 30_000, "kind": "off_cpu", "weight": 30_000.0, "stack_id": 1},
    {"tid": 1, "ts": 280_000, "kind": "on_cpu", "weight": 20_000.0, "stack_id": 2},
    {"tid": 2, "ts": 250_000, "kind": "on_cpu", "weight": 90_000.0, "stack_id": 1},
]


@pytest.fixture
def report(make_trace):
    tables = {"kernel": KERNELS, "call": CALLS, "span": SPANS, "sample": SAMPLES, "frame": FRAMES}
    return pasta.run("host_bound", trace=make_trace(**tables))


def test_each_place_by_hand(report):
    """Of each gap of 90 us the launch takes the last 10, the host what is before.

    The first is in a module, with two outermost operators; in the second nothing is recorded but samples;
    the third begins in a call that waits for the device.
    """
    places = report.tables["places"].select("doing", "label", "module", "lost_ns", "gaps", "on_cpu_ns", "off_cpu_ns")  # fmt: skip
    between = "code between operators"
    assert set(places.rows()) == {
        (between, "code after cudaLaunchKernel and before aten::outer", "Block_0", 10_000, 1, 0, 0),
        ("an operator", "aten::outer", "Block_0", 10_000, 1, 0, 0),
        ("an operator", "aten::inner", "Block_0", 10_000, 1, 0, 0),
        (between, "code after aten::outer and before aten::last", "Block_0", 20_000, 1, 0, 0),
        ("an operator", "aten::last", "Block_0", 30_000, 1, 0, 0),
        (between, "code after aten::last and before cudaLaunchKernel", "", 30_000, 1, 0, 0),
        (between, "wait_lock", "", 30_000, 1, 0, 30_000),
        (between, "compute", "", 20_000, 1, 20_000, 0),
        ("a call that waits for the device", "cudaDeviceSynchronize in (no recorded range)", "", 40_000, 1, 0, 0),
        (between, "code after cudaDeviceSynchronize and before cudaLaunchKernel", "", 40_000, 1, 0, 0),
    }  # fmt: skip


def test_parts_add_up_to_the_idle_time(report):
    doings = {row["doing"]: row["lost_ns"] for row in report.tables["doings"].to_dicts()}
    assert doings == {
        "code between operators": 150_000,
        "an operator": 50_000,
        "a call that waits for the device": 40_000,
        "not the host": 30_000,
    }
    assert report.tables["doings"]["share"].sum() == pytest.approx(1)
    gaps = report.tables["gaps"].group_by("until").agg(pl.col("lost_ns").sum(), pl.col("gap_ns").unique())  # fmt: skip
    assert gaps["lost_ns"].to_list() == [90_000] * 3
    assert gaps["gap_ns"].to_list() == [[90_000]] * 3


def test_findings_name_code_and_what_is_to_be_won(report):
    assert report.findings[:2] == [
        "devices compute nothing for 270.00 us; for 240.00 us of it (88.9 %) they wait for the host, and this much is to be won at most",
        "cudaDeviceSynchronize in (no recorded range): devices wait 40.00 us for it, 14.8 % of the time without computing, in 1 gap",
    ]  # fmt: skip
    assert "wait_lock: devices wait 30.00 us for it, mostly off the CPU, 11.1 % of the time without computing, in 1 gap" in report.findings  # fmt: skip
    assert any(text.startswith("100.00 us are code between operators") for text in report.findings)


def test_call_paths_join_ranges_stacks_and_calls(make_trace, tmp_path):
    tables = {"kernel": KERNELS, "call": CALLS, "span": SPANS, "sample": SAMPLES, "frame": FRAMES}
    pasta.run("host_bound", trace=make_trace(**tables), out=tmp_path / "out")
    paths = pl.read_parquet(next((tmp_path / "out").rglob("paths*.parquet")))
    found = dict(paths.select("path", "lost_ns").iter_rows())
    assert found["Block_0 > aten::outer > aten::inner"] == 10_000
    assert found["(no recorded range) > main (a.py:3) > wait_lock (a.py:3)"] == 30_000
    assert found["(no recorded range) > cudaDeviceSynchronize"] == 40_000
    assert found["(not the host: launch)"] == 30_000
    assert sum(found.values()) == 270_000


def test_nothing_is_claimed_without_calls_or_kernels(make_trace):
    bare = pasta.run("host_bound", trace=make_trace("bare", kernel=[work(0, 0, 5), work(0, 50, 5)]))
    assert bare.tables["places"].height == 0
    assert bare.findings[1] == "the call that launches the next work is unknown for 45 ns (100.0 %): nothing is said of these"  # fmt: skip
    none = pasta.run("host_bound", trace=make_trace("none", kernel=[{**work(1, 0, 5), "dur": None}]))  # fmt: skip
    assert none.findings == [
        "no kernel with a duration was recorded in a step: of idle time nothing can be said"
    ]


def test_a_thread_that_does_nothing_while_another_works(make_trace):
    """The launching thread is in nothing that is recorded; thread 2 is in an operator for 30 us of the gap."""
    spans = [{"tid": 2, "ts": 130_000, "dur": 30_000, "span_id": 1, "level": "operator", "name": "aten::loss"}]  # fmt: skip
    other = launched(9, 131_000)
    report = pasta.run("host_bound", trace=make_trace(kernel=[*KERNELS[:2], work(9, 400_000, 5)], call=[*CALLS[:2], {**other, "tid": 2}], span=spans))  # fmt: skip
    places = {row["label"]: (row["doing"], row["lost_ns"]) for row in report.tables["places"].to_dicts()}  # fmt: skip
    assert places["aten::loss"] == ("nothing, while another thread works", 30_000)


def sampled(seed: int, rank: int) -> Rows:
    """Two threads that are sampled every 7 ns of CPU time, and off the CPU four times."""
    random = np.random.default_rng(seed)
    rows: Rows = []
    for tid in (1, 2):
        for ts in range(int(random.integers(0, 9)), 320, 7):
            rows.append({"tid": tid, "ts": ts, "kind": "on_cpu", "weight": float(random.integers(1, 12))})  # fmt: skip
        for begin in range(20, 300, 70):
            dur = int(random.integers(1, 50))
            rows.append({"tid": tid, "ts": begin, "dur": dur, "kind": "off_cpu", "weight": float(dur)})  # fmt: skip
    return [{**row, "rank": rank, "pid": 7, "stack_id": 0} for row in rows]


def states(tables: dict[str, Rows]) -> Counter[str]:
    """Return for how long the thread that is late is on and off the CPU, asked at every moment."""
    communication = {row["launch_id"] for row in tables["collective"]}
    works = sorted(tables["kernel"] + tables["copy"], key=lambda w: (w["ts"], w["correlation"]))
    calls = {c["correlation"]: c for c in reversed(tables["call"]) if c["correlation"]}
    steps = [s for s in tables["span"] if s["level"] == "step"]
    on = [row for row in tables["sample"] if row["kind"] == "on_cpu"]
    off = [row for row in tables["sample"] if row["kind"] == "off_cpu"]
    found = Counter(host=0, on=0, off=0)

    def computes(row: dict[str, Any]) -> bool:
        return "launch_id" in row and row["launch_id"] not in communication

    for now in range(works[0]["ts"], max(map(end, works))):
        running = [w for w in works if lasts(w, now)]
        if any(map(computes, running)) or (steps and not any(lasts(s, now) for s in steps)):
            continue
        follows = [w for w in works if w["ts"] > now and (not running or computes(w))]
        call = calls.get(follows[0]["correlation"]) if follows else None
        if call is None or call["ts"] > follows[0]["ts"] or call["ts"] <= now:
            continue
        held = [c for c in tables["call"] if c["tid"] == call["tid"] and lasts(c, now)]
        inner = max(held, key=lambda c: (c["ts"], -c["dur"]), default={"name": ""})
        if running and "Synchronize" in inner["name"]:
            continue
        if any(lasts(row, now) for row in off if row["tid"] == call["tid"]):
            found["off"] += 1
        else:
            later = min((row for row in on if row["tid"] == call["tid"] and row["ts"] > now), key=lambda row: row["ts"], default=None)  # fmt: skip
            found["on"] += later is not None and now >= later["ts"] - later["weight"]
        found["host"] += 1
    return found


@pytest.mark.parametrize("seed", range(12))
def test_on_and_off_the_cpu_at_every_moment(tmp_path, seed):
    tables = random_tables(seed, rank=0)
    tables["sample"] = sampled(seed, rank=0)
    trace = write_trace(tmp_path / "t", **tables)
    doings = pasta.run("host_bound", trace=trace).tables["doings"]
    hosts = doings.filter(pl.col("doing") != "not the host")
    expected = states(tables)
    assert {"host": hosts["lost_ns"].sum(), "on": hosts["on_cpu_ns"].sum(), "off": hosts["off_cpu_ns"].sum()} == expected  # fmt: skip
    device = pasta.run("idle_causes", trace=trace).tables["devices"].row(0, named=True)
    assert doings["lost_ns"].sum() == device["idle_ns"]


@pytest.mark.parametrize("sample", ["tracelens_h100_bert_small", "tracelens_mi300_bert_small"])
def test_real_profiles_add_up(samples, sample):
    trace = samples / "kineto" / f"{sample}.json.gz"
    device = pasta.run("idle_causes", trace=trace).tables["devices"].row(0, named=True)
    report = pasta.run("host_bound", trace=trace, top=10_000)
    assert report.tables["doings"]["lost_ns"].sum() == device["idle_ns"]
    late = device["host_ns"] + device["data_ns"] + device["synchronisation_ns"]
    assert report.tables["places"]["lost_ns"].sum() == late
