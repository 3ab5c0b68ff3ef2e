"""`critical_path` against a walk back by hand, on runs whose path is known, and on real profiles."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import polars as pl
import pytest

import pasta
from pasta.testing import write_trace
from tests.tools.steps_run import LOADER, steps_run
from tests.tools.test_idle_causes import end, lasts, random_tables

Rows = list[dict[str, Any]]
Piece = tuple[int, int, str]


class Walk:
    """One process of one device: where each moment came from, as the page says it."""

    def __init__(self, tables: dict[str, Rows]) -> None:
        communication = {row["launch_id"] for row in tables.get("collective", [])}
        self.calls, self.spans = tables.get("call", []), tables.get("span", [])
        self.of_id = {c["correlation"]: c for c in reversed(self.calls) if c["correlation"]}
        self.works = []
        for row in sorted(tables["kernel"] + tables.get("copy", []), key=lambda w: (w["ts"], w["correlation"])):  # fmt: skip
            kind = "copy" if "launch_id" not in row else "communication" if row["launch_id"] in communication else "compute"  # fmt: skip
            call = self.of_id.get(row["correlation"])
            call = call if call and call["ts"] <= row["ts"] else None
            same = [w for w in self.works if w["stream"] == row["stream"] and end(w) == end(row)]
            if row["dur"] and not same:
                self.works.append({**row, "kind": kind, "call": call})
        self.waits = [s for s in tables.get("sync", []) if s["kind"] == "Stream Wait Event"]
        self.steps = [s for s in self.spans if s["level"] == "step"]
        launching = {self.of_id[w["correlation"]]["tid"] for w in tables["kernel"] + tables.get("copy", []) if w["correlation"] in self.of_id}  # fmt: skip
        threads = launching | {s["tid"] for s in self.steps}
        self.points = sorted({(t, row["tid"]) for row in self.spans + self.calls if row["tid"] in threads for t in (row["ts"], end(row))})  # fmt: skip

    def before_work(self, work: dict[str, Any]) -> tuple[Any, int | None, str]:
        stream = [w for w in self.works if w["stream"] == work["stream"] and end(w) <= work["ts"]]
        previous = max(map(end, stream), default=None)
        call, ready = work["call"], None
        if call:
            ready = end(call) if end(call) <= work["ts"] else call["ts"]
        event, waited = self.event(work)
        known = [t for t in (previous, event, ready) if t is not None]
        latest = max(known, default=None)
        if latest is None:
            return None, None, "unknown"
        if latest == previous:
            kind = "queue" if call else "unknown"
            return next(w for w in stream if end(w) == previous), previous, kind
        if latest == event:
            return waited, event, "event"
        assert call
        return call["tid"], call["ts"], "launch"

    def event(self, work: dict[str, Any]) -> tuple[int | None, Any]:
        if not work["call"]:
            return None, None
        found = []
        for wait in self.waits:
            on_stream = [w["call"]["ts"] for w in self.works if w["call"] and w["stream"] == wait["stream"]]  # fmt: skip
            record = self.of_id.get(wait["waited_correlation"])
            if wait["stream"] != work["stream"] or not record:
                continue
            if min((t for t in on_stream if t > wait["ts"]), default=None) != work["call"]["ts"]:
                continue
            earlier = [w for w in self.works if w["stream"] == wait["waited_stream"] and w["call"] and w["call"]["ts"] < record["ts"]]  # fmt: skip
            if earlier:
                found.append(max(earlier, key=lambda w: (w["call"]["ts"], w["correlation"])))
        if not found or max(map(end, found)) > work["ts"]:
            return None, None
        last = max(found, key=end)
        return end(last), last

    def waited(self, tid: int, at: int) -> dict[str, Any] | None:
        found = []
        for call in self.calls:
            if call["tid"] != tid or end(call) != at:
                continue
            own = [w for w in self.works if w["kind"] == "copy" and w["call"] is call and call["ts"] < end(w) <= at]  # fmt: skip
            found += own
            past = [w for w in self.works if end(w) <= at]
            if call["dur"] and re.search("synchronize", call["name"].lower()) and past:
                last = max(past, key=lambda w: (end(w), w["correlation"]))
                if end(last) > call["ts"] and (not last["call"] or last["call"]["ts"] <= call["ts"]):  # fmt: skip
                    found.append(last)
        return max(found, key=end, default=None)

    def before_moment(self, tid: int, at: int) -> tuple[Any, int | None, str]:
        work = self.waited(tid, at)
        if work:
            return work, end(work), "synchronisation"
        own = [p for p in self.points if p[1] == tid and p[0] < at]
        active = [s for s in self.spans if s["level"] == "operator"] + self.calls
        if own and any(row["tid"] == tid and lasts(row, own[-1][0]) for row in active):
            return tid, own[-1][0], "host"
        any_before = [p for p in self.points if p < (at, tid)]
        if not any_before:
            return None, None, "unknown"
        return any_before[-1][1], any_before[-1][0], "host"

    def path(self, begin: int, at: int, tid: int) -> list[Piece]:
        pieces: list[Piece] = []
        where: Any = tid
        while where is not None and at > begin:
            if isinstance(where, dict):
                pieces.append((max(where["ts"], begin), at, where["kind"]))
                at, (where, came, kind) = where["ts"], self.before_work(where)
            else:
                where, came, kind = self.before_moment(where, at)
            came = begin if came is None else max(came, begin)
            if at > came:
                pieces.append((came, at, kind))
            at = came
        return sorted(piece for piece in pieces if piece[1] > piece[0])


def with_waits(tables: dict[str, Rows], seed: int) -> dict[str, Rows]:
    """Add events to random tables: streams that wait for others; of each second, work queues up."""
    rank = tables["span"][0]["rank"]
    for row in tables["kernel"] + tables["copy"]:
        row["dur"] += 20 * (seed % 2)
    for row in tables["call"]:
        row["ts"] -= 60 * (seed % 2)
    tables["sync"] = []
    for n, ts in enumerate(range(30, 290, 20)):
        record = {"rank": rank, "pid": 7, "tid": 1, "ts": ts - 7 * (seed % 5), "dur": 1, "correlation": 90 + n, "name": "cudaEventRecord"}  # fmt: skip
        tables["call"].append(record)
        tables["sync"].append({"rank": rank, "pid": 7, "device": 0, "ts": ts, "dur": 1, "kind": "Stream Wait Event", "stream": (n + seed) % 3, "waited_stream": (n + 1 + seed) % 3, "waited_correlation": 90 + n, "correlation": 0})  # fmt: skip
    return tables


def test_every_path_equals_a_walk_back(tmp_path):
    ranks = [with_waits(random_tables(2 * n + 1, rank=n), n) for n in range(60)]
    tables = {name: [row for rank in ranks for row in rank[name]] for name in ranks[0]}
    pasta.run("critical_path", trace=write_trace(tmp_path / "t", **tables), out=tmp_path / "out")
    found = pl.read_parquet(tmp_path / "out" / "path.parquet")
    via = Counter()
    for rank, own in enumerate(ranks):
        walk = Walk(own)
        for step in walk.steps:
            rows = found.filter(rank=rank, step=step["name"]).sort("begin_ns")
            pieces = [(b, b + d, k) for b, d, k in rows.select("begin_ns", "piece_ns", "kind").rows()]  # fmt: skip
            assert pieces == walk.path(step["ts"], end(step), step["tid"])
            assert sum(until - begin for begin, until, _ in pieces) == step["dur"]
            via.update(kind for _, _, kind in pieces)
    assert len(via) == 9  # Every kind of piece is among them.


def work(correlation: int, ts: int, dur: int, stream: int = 7, name: str = "k") -> dict[str, Any]:
    return {"device": 0, "stream": stream, "ts": ts, "dur": dur, "correlation": correlation, "launch_id": correlation, "name": name}  # fmt: skip


def launch(correlation: int, ts: int, dur: int = 3, name: str = "cudaLaunchKernel") -> dict[str, Any]:  # fmt: skip
    return {"tid": 1, "ts": ts, "dur": dur, "correlation": correlation, "name": name}


def test_a_path_by_hand(make_trace):
    """The step ends after a synchronisation; `c` waits for an event of `b`, and `a` is off the path."""
    step = {"tid": 1, "ts": 0, "dur": 320, "span_id": 1, "level": "step", "name": "step"}
    operator = {"tid": 1, "ts": 2, "dur": 9, "span_id": 2, "level": "operator", "name": "aten::b"}
    calls = [launch(2, 5), launch(5, 9, 1, "cudaEventRecord"), launch(1, 12), launch(3, 20), launch(0, 30, 280, "cudaDeviceSynchronize")]  # fmt: skip
    kernels = [work(2, 10, 100, 8, "b"), work(1, 16, 40, 7, "a"), work(3, 115, 185, 7, "c")]
    wait = {"device": 0, "ts": 17, "dur": 1, "kind": "Stream Wait Event", "stream": 7, "waited_stream": 8, "waited_correlation": 5, "correlation": 6}  # fmt: skip
    trace = make_trace(kernel=kernels, call=calls, span=[step, operator], sync=[wait])
    report = pasta.run("critical_path", trace=trace, top=50)
    names = {(kind, label): ns for kind, label, ns in report.tables["names"].select("kind", "label", "path_ns").rows()}  # fmt: skip
    assert names == {
        ("host", "(no recorded range)"): 2 + 10,
        ("host", "aten::b"): 3,
        ("launch", "aten::b"): 5,
        ("compute", "aten::b"): 100,
        ("event", "c"): 5,
        ("compute", "c"): 185,
        ("synchronisation", "cudaDeviceSynchronize in (no recorded range)"): 10,
    }
    assert report.findings[0] == "the critical path of 1 step is 320 ns long"
    assert report.findings[1] == "kernels compute for 285 ns, 89.1 % of it, the most in c (185 ns)"
    assert report.tables["steps"].select("step_ns", "path_ns").rows() == [(320, 320)]


@pytest.mark.parametrize(
    ("planted", "kind", "label"),
    [("data", "host", LOADER), ("copy", "copy", "HtoD copy of aten::to"), ("compute", "compute", "aten::mm")],
)  # fmt: skip
def test_what_is_planted_leads_the_path_of_its_steps(tmp_path, planted, kind, label):
    """Each trace of 100 has a step that lasts 2 ms longer; clean steps are led by their kernels."""
    traces = [
        write_trace(tmp_path / str(seed), **steps_run(seed, ranks=1, steps=3, **{planted: {(0, 1): 2_000_000}}))
        for seed in range(100)
    ]  # fmt: skip
    report = pasta.run("critical_path", trace=traces, out=tmp_path / "out")
    steps = pl.read_parquet(tmp_path / "out" / "by_step.parquet")
    sums = steps.group_by("trace", "step", "step_ns").agg(pl.col("kind_ns").sum())
    assert sums.height == 300
    assert (sums["step_ns"] == sums["kind_ns"]).all()
    names = pl.read_parquet(tmp_path / "out" / "path.parquet")
    led = names.group_by("trace", "step", "kind", "label").agg(pl.col("piece_ns").sum())
    led = led.sort("piece_ns", descending=True).unique(["trace", "step"], keep="first", maintain_order=True)  # fmt: skip
    slow = led.filter(pl.col("step") == "ProfilerStep#1")
    assert slow.select("kind", "label").rows() == [(kind, label)] * 100
    assert (led.filter(pl.col("step") != "ProfilerStep#1")["kind"] == "compute").all()
    assert report.tables["parts"].height


@pytest.mark.parametrize("sample", ["tracelens_h100_bert_small", "tracelens_mi300_bert_small", "hta_mi250_minitoy_rocm6.2", "hta_alexnet_critical_path"])  # fmt: skip
def test_real_paths_add_up(samples, sample):
    trace = pasta.open(samples / "kineto" / f"{sample}.json.gz")
    report = pasta.run("critical_path", trace=trace)
    steps = report.tables["steps"]
    assert (steps["step_ns"] == steps["path_ns"]).all()
    if "bert" in sample:
        tables = {name: trace.scan(name).collect().to_dicts() for name in ("kernel", "copy", "call", "span")}  # fmt: skip
        tables["copy"] = [{k: v for k, v in row.items() if k != "launch_id"} for row in tables["copy"]]  # fmt: skip
        walk = Walk(tables)
        (step,) = walk.steps
        counted: Counter[str] = Counter()
        for begin, until, kind in walk.path(step["ts"], end(step), step["tid"]):
            counted[kind] += until - begin
        assert dict(report.tables["parts"].select("kind", "path_ns").rows()) == counted


def test_kernels_alone_and_nothing(make_trace):
    alone = pasta.run("critical_path", trace=make_trace("alone", kernel=[work(0, 10, 5), work(0, 20, 8)]))  # fmt: skip
    assert dict(alone.tables["parts"].select("kind", "path_ns").rows()) == {"compute": 13, "unknown": 5}  # fmt: skip
    untimed = {**work(1, 0, 5), "dur": None}
    nothing = pasta.run("critical_path", trace=make_trace("nothing", kernel=[untimed]))
    assert nothing.findings == [
        "no step ends with anything recorded from which a path could lead back"
    ]
