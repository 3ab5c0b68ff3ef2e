"""`idle_causes` against a reading of its definition word by word, and planted causes found by name."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import pasta
from pasta.testing import write_trace
from tests.tools.ranks_run import ranks_run
from tests.tools.steps_run import LOADER, steps_run

CAUSES = ("host", "data", "synchronisation", "launch", "dependency", "copy", "communication", "rank", "unknown")  # fmt: skip
Rows = list[dict[str, Any]]


def lasts(row: dict[str, Any], now: int) -> bool:
    return bool(row["ts"] <= now < row["ts"] + row["dur"])


def end(row: dict[str, Any]) -> int:
    return int(row["ts"] + row["dur"])


def expected(tables: dict[str, Rows], latency: int) -> Counter[str]:
    """Return how long each cause lasts on the one device of one process without other ranks."""
    communication = {row["launch_id"] for row in tables.get("collective", [])}
    works = sorted(tables["kernel"] + tables.get("copy", []), key=lambda w: (w["ts"], w["correlation"]))  # fmt: skip
    kinds = {id(w): "copy" if "launch_id" not in w else "communication" if w["launch_id"] in communication else "compute" for w in works}  # fmt: skip
    calls = {c["correlation"]: c for c in reversed(tables.get("call", [])) if c["correlation"]}
    spans = tables.get("span", [])
    steps = [s for s in spans if s["level"] == "step"]
    first, last = works[0]["ts"], max(map(end, works))
    times = {t for row in [*works, *spans, *tables.get("call", [])] for t in (row["ts"], end(row))}
    found: Counter[str] = Counter()

    def call_of(work: dict[str, Any] | None) -> dict[str, Any] | None:
        call = calls.get(work["correlation"]) if work else None
        return call if call and work and call["ts"] <= work["ts"] else None

    def cause(now: int) -> str:
        running = [kinds[id(w)] for w in works if lasts(w, now)]
        if "compute" in running:
            return ""
        follows = [w for w in works if w["ts"] > now and (not running or kinds[id(w)] == "compute")]
        work = follows[0] if follows else None
        call = call_of(work)
        late = call is not None and call["ts"] > now
        on_thread = [s for s in spans if call and s["tid"] == call["tid"] and lasts(s, now) and s["level"] != "step"]  # fmt: skip
        inner = max(on_thread, key=lambda s: (s["ts"], -s["dur"]), default={"name": ""})
        in_calls = [c for c in tables.get("call", []) if call and c["tid"] == call["tid"] and lasts(c, now)]  # fmt: skip
        in_call = max(in_calls, key=lambda c: (c["ts"], -c["dur"]), default={"name": ""})
        blocks = re.search("synchronize|signal_wait|memcpy", in_call["name"].lower()) is not None
        if running and (not late or blocks):
            return "communication" if "communication" in running else "copy"
        if work is None or call is None:
            return "unknown"
        if late:
            return "synchronisation" if blocks else "data" if inner["name"] == LOADER else "host"
        since = max((end(w) for w in works if w["dur"] and end(w) <= now), default=first)
        short = now < end(call) or work["ts"] - max(since, end(call)) <= latency
        return "launch" if short else "dependency"

    for begin, until in pairwise(sorted(t for t in times if first <= t <= last)):
        if not steps or any(lasts(step, begin) for step in steps):
            found[cause(begin)] += until - begin
    return found


def random_tables(seed: int, rank: int) -> dict[str, Rows]:
    """A device that does anything at any time of 300 ns, and two threads of its host."""
    random = np.random.default_rng(seed)

    def number(least: int, most: int) -> int:
        return int(random.integers(least, most))

    common = {"rank": rank, "pid": 7}
    tables: dict[str, Rows] = {"span": [], "call": [], "kernel": [], "copy": [], "collective": []}
    for n in range(1, 13):
        ts = number(20, 300)
        work = {**common, "device": 0, "stream": n % 3, "ts": ts, "dur": number(0, 12), "correlation": n}  # fmt: skip
        tid = number(1, 3)
        if random.random() < 0.85:
            tables["call"].append({**common, "tid": tid, "ts": ts - number(-2, 40), "dur": number(1, 9), "correlation": n, "name": "cudaLaunchKernel"})  # fmt: skip
        if n % 4 == 0:
            tables["copy"].append({**work, "kind": "HtoD"})
            continue
        tables["kernel"].append({**work, "launch_id": n, "name": f"k{n}"})
        if n % 5 == 1:
            tables["collective"].append({**common, "device": 0, "launch_id": n, "ts": ts, "dur": work["dur"]})  # fmt: skip
    for n in range(1, 9):
        name = LOADER if n % 4 == 0 else f"aten::op{n}"
        tables["span"].append({**common, "tid": 1 + n % 2, "ts": 36 * n - 20, "dur": number(1, 30), "span_id": n, "level": "operator", "name": name})  # fmt: skip
    if seed % 2:
        for n, (begin, until) in enumerate([(10, number(80, 120)), (130, 290)], start=20):
            tables["span"].append({**common, "tid": 1, "ts": begin, "dur": until - begin, "span_id": n, "level": "step", "name": f"step {n}"})  # fmt: skip
    for n in range(4):
        tables["call"].append({**common, "tid": 1 + n % 2, "ts": 70 * n + 9, "dur": number(1, 25), "correlation": 0, "name": "cudaStreamSynchronize"})  # fmt: skip
    return tables


def test_every_nanosecond_has_the_cause_that_the_page_defines(tmp_path):
    ranks = [random_tables(seed, rank=seed) for seed in range(60)]
    tables = {name: [row for rank in ranks for row in rank[name]] for name in ranks[0]}
    report = pasta.run("idle_causes", trace=write_trace(tmp_path / "t", **tables), latency=6)
    rows = {row["rank"]: row for row in report.tables["devices"].to_dicts()}
    for rank, own in enumerate(ranks):
        counted = expected(own, 6)
        assert {c: rows[rank][f"{c}_ns"] or 0 for c in CAUSES} == {c: counted[c] for c in CAUSES}
        assert rows[rank]["time_ns"] == counted.total()
        assert rows[rank]["idle_ns"] == counted.total() - counted[""]


@pytest.mark.parametrize("sample", ["tracelens_h100_bert_small", "tracelens_mi300_bert_small"])
def test_real_profiles(samples, sample):
    trace = pasta.open(samples / "kineto" / f"{sample}.json.gz")
    tables = {name: trace.scan(name).collect().to_dicts() for name in ("kernel", "copy", "call", "span")}  # fmt: skip
    row = pasta.run("idle_causes", trace=trace).tables["devices"].to_dicts()[0]
    counted = expected(tables, 20_000)
    assert {c: row[f"{c}_ns"] for c in CAUSES} == {c: counted[c] for c in CAUSES}
    assert row["time_ns"] == counted.total()


PLANTED = {
    "host": "the host launches the next work too late",
    "data": "the host waits for data",
    "copy": "copies run that no kernel hides",
    "communication": "communication runs that no computation hides",
}


def reported(tmp_path, seeds: range, **planted: Any) -> pasta.Report:
    """Run the tool on a trace for each seed."""
    traces = [write_trace(tmp_path / str(seed), **steps_run(seed, steps=4, **planted)) for seed in seeds]  # fmt: skip
    return pasta.run("idle_causes", trace=traces)


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_cause_is_named_in_every_seed(tmp_path, planted):
    losses = {planted: {(0, step): 400_000 for step in range(4)}}
    report = reported(tmp_path, range(100), ranks=1, **losses)
    causes = report.tables["causes"]
    assert causes["text"].to_list()[:100] == [PLANTED[planted]] * 100
    assert causes["trace"][:100].n_unique() == 100
    assert (causes["of_time"][100:] < 0.05).all()
    assert any(f": {PLANTED[planted]}: " in text for text in report.findings)
    label = {"data": LOADER, "copy": "HtoD copy of aten::to"}.get(planted)
    assert label is None or causes["label"].to_list()[:100] == [label] * 100


def test_nothing_is_found_in_clean_runs(tmp_path):
    assert reported(tmp_path, range(100), ranks=1).findings == []


def test_a_rank_that_others_wait_for(tmp_path):
    trace = write_trace(tmp_path / "t", **ranks_run(3, late={5: 600_000}))
    report = pasta.run("idle_causes", trace=trace)
    assert any(
        text.startswith("a collective waits for a later rank") and "for rank 5" in text
        for text in report.findings
    )


def work(correlation: int, ts: int, dur: int, stream: int = 7, name: str = "k") -> dict[str, Any]:
    return {"device": 0, "stream": stream, "ts": ts, "dur": dur, "correlation": correlation, "launch_id": correlation, "name": name}  # fmt: skip


def launched(correlation: int, ts: int, dur: int = 3_000, name: str = "cudaLaunchKernel") -> dict[str, Any]:  # fmt: skip
    return {"tid": 1, "ts": ts, "dur": dur, "correlation": correlation, "name": name}


def test_a_wait_for_another_stream_is_a_dependency_and_named(make_trace):
    """`c` was launched at 20 us, after its stream was told to wait for stream 8; it begins 100 us after `b`."""
    kernels = [work(1, 5_000, 50_000, name="a"), work(2, 60_000, 40_000, 8, "b"), work(3, 200_000, 9_000, name="c")]  # fmt: skip
    calls = [launched(1, 0), launched(2, 4_000), launched(3, 20_000)]
    wait = {"device": 0, "ts": 15_000, "dur": 1_000, "kind": "Stream Wait Event", "stream": 7, "waited_stream": 8, "correlation": 9}  # fmt: skip
    report = pasta.run("idle_causes", trace=make_trace(kernel=kernels, call=calls, sync=[wait]))
    device = report.tables["devices"].to_dicts()[0]
    assert (device["launch_ns"], device["dependency_ns"], device["idle_ns"]) == (5_000, 100_000, 105_000)  # fmt: skip
    label = "c, which waits for an event of stream 8, after b"
    assert report.tables["longest"].row(0, named=True)["label"] == label
    assert report.findings[1] == f"work is launched in time and begins late: 100.00 us, 95.2 % of the time without computing, most of it before {label} (100.00 us)"  # fmt: skip
    no_wait = pasta.run("idle_causes", trace=make_trace("bare", kernel=kernels, call=calls))
    assert no_wait.tables["longest"].row(0, named=True)["label"] == "c, after b"


def test_a_call_that_takes_long_is_said_to_be_under_way(make_trace):
    """As the first of a kernel does, which loads it: 90 us are more than any latency."""
    kernels = [work(1, 5_000, 5_000), work(2, 100_000, 9_000, name="b")]
    calls = [launched(1, 0), launched(2, 10_000, 89_000)]
    report = pasta.run("idle_causes", trace=make_trace(kernel=kernels, call=calls))
    assert report.tables["devices"]["launch_ns"].to_list() == [90_000]
    assert report.findings[1].startswith("work is being launched, or begins within the latency of a launch: 90.00 us")  # fmt: skip


def test_a_copy_that_delays_a_kernel_and_one_that_does_not(make_trace):
    """Of the second gap the host, not the copy, is to blame until it launches, in the call that it was in."""
    kernels = [work(1, 5_000, 10_000), work(3, 120_000, 10_000), work(4, 300_000, 9_000)]
    copies = [{**work(2, 20_000, 100_000), "kind": "HtoD"}, {**work(5, 150_000, 140_000), "kind": "HtoD"}]  # fmt: skip
    calls = [launched(1, 0), launched(2, 6_000, name="cudaMemcpyAsync"), launched(3, 10_000), launched(5, 14_000, name="cudaMemcpyAsync"), launched(4, 295_000), launched(0, 140_000, 100_000, "cudaMalloc")]  # fmt: skip
    spans = [{"tid": 1, "ts": 135_000, "dur": 170_000, "span_id": 1, "level": "operator", "name": "aten::empty"}]  # fmt: skip
    report = pasta.run("idle_causes", trace=make_trace(kernel=kernels, copy=copies, call=calls, span=spans))  # fmt: skip
    device = report.tables["devices"].to_dicts()[0]
    assert device["copy_ns"] == 100_000
    assert device["launch_ns"] == 5_000 + 20_000 + 5_000
    assert device["dependency_ns"] == 0
    assert device["host_ns"] == 295_000 - 150_000
    places = report.tables["places"].filter(cause="host").select("label", "lost_ns").rows()
    assert places == [("cudaMalloc in aten::empty", 90_000), ("aten::empty", 55_000)]


def test_without_calls_the_cause_is_unknown(make_trace):
    report = pasta.run("idle_causes", trace=make_trace(kernel=[work(0, 0, 5), work(0, 50, 5)]))
    assert report.tables["devices"].select("idle_ns", "unknown_ns").rows() == [(45, 45)]
    assert report.findings[1].startswith("the call that launches the next work is unknown: 45 ns")


def test_one_kernel_and_none(make_trace):
    one = pasta.run("idle_causes", trace=make_trace("one", kernel=[work(1, 0, 5)]))
    assert one.findings == []
    untimed = {**work(1, 0, 5), "dur": None}
    none = pasta.run("idle_causes", trace=make_trace("none", kernel=[untimed]))
    assert none.findings == [
        "no kernel with a duration was recorded in a step: of idle time nothing can be said"
    ]
    assert none.tables["devices"].height == 0
