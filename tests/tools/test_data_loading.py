"""`data_loading` on planted waits, clean runs, and a real profile with an interval sweep of its own."""

from __future__ import annotations

import polars as pl
import pytest

import pasta
from pasta.testing import write_trace
from tests.tools.steps_run import LOADER, steps_run

SINGLE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def test_planted_waits_are_found_in_every_seed_with_their_steps(tmp_path):
    traces = [
        write_trace(
            tmp_path / str(seed), **steps_run(seed, ranks=1, data={(0, 3): 900_000, (0, 5): 700_000})
        )
        for seed in range(100)
    ]  # fmt: skip
    report = pasta.run("data_loading", trace=traces, top=200)
    assert ": device 0 of rank 0 stands still for 1.6" in report.findings[0]
    assert "worker processes, which do not keep up" in report.findings[0]
    waits = report.tables["steps"].group_by("trace").agg("step", "wait_ns")
    assert waits.height == 100
    for names, waited in waits.select("step", "wait_ns").rows():
        assert names[:2] == ["ProfilerStep#3", "ProfilerStep#5"]
        assert waited[0] >= 900_000 > waited[1] >= 700_000
    loaders = report.tables["loaders"]
    assert loaders["batches"].to_list() == [8] * 100
    assert loaders["load_ns"].to_list() == [8 * 5_000 + 1_600_000] * 100
    assert loaders["longest_ns"].to_list() == [905_000] * 100


def test_nothing_is_found_in_clean_runs(tmp_path):
    traces = [write_trace(tmp_path / str(seed), **steps_run(seed, ranks=1, steps=4)) for seed in range(100)]  # fmt: skip
    report = pasta.run("data_loading", trace=traces)
    assert report.findings == []
    assert (report.tables["waiting"]["wait_share"] < 0.05).all()


@pytest.mark.parametrize(
    ("name", "text"),
    [(SINGLE, "while the process itself loads data"), ("my load_data", "while the host is in my load_data")],
)  # fmt: skip
def test_other_loaders_are_named(tmp_path, name, text):
    tables = steps_run(1, ranks=1, data={(0, 3): 2_000_000})
    for span in tables["span"]:
        span["name"] = name if span["name"] == LOADER else span["name"]
    report = pasta.run("data_loading", trace=write_trace(tmp_path / "t", **tables))
    assert text in report.findings[0]


def test_a_loader_within_a_loader_counts_once_and_pageable_copies_are_told(make_trace):
    spans = [
        {"tid": 1, "ts": 0, "dur": 100, "span_id": 1, "level": "step", "name": "step 1"},
        {"tid": 1, "ts": 10, "dur": 30, "span_id": 2, "level": "annotation", "name": "next_batch"},
        {"tid": 1, "ts": 15, "dur": 20, "span_id": 3, "level": "annotation", "name": LOADER},
    ]
    kernels = [{"device": 0, "ts": ts, "dur": 5, "launch_id": ts + 1, "name": "k"} for ts in (0, 90)]  # fmt: skip
    copy = {"device": 0, "kind": "HtoD", "bytes": 64}
    copies = [{**copy, "ts": 50, "dur": 20, "source": "pageable"}, {**copy, "ts": 75, "dur": 5, "source": "pinned"}, {**copy, "ts": 82, "dur": 2, "kind": "DtoH"}]  # fmt: skip
    report = pasta.run("data_loading", trace=make_trace(span=spans, kernel=kernels, copy=copies))
    step = report.tables["steps"].row(0, named=True)
    assert (step["step_ns"], step["wait_ns"], step["load_ns"]) == (100, 30, 30)
    assert (step["copies"], step["copy_bytes"], step["copy_ns"], step["pageable_bytes"]) == (2, 128, 25, 64)  # fmt: skip
    assert report.findings[-1].startswith("device 0 of rank 0 copies 64 B from pageable memory in 20 ns, 20.0 % of its steps")  # fmt: skip
    bare = make_trace("bare", span=spans[:1], kernel=kernels)
    assert pasta.run("data_loading", trace=bare).findings[0].startswith("no range of a data loader is recorded")  # fmt: skip


def sweep(adding: list[tuple[int, int]], covering: list[tuple[int, int]]) -> int:
    """Return how long something of `adding` lasts and nothing of `covering` does."""
    ends = sorted((t, which, change) for which, spans in enumerate((adding, covering)) for begin, until in spans for t, change in ((begin, 1), (until, -1)))  # fmt: skip
    open_now, last, total = [0, 0], 0, 0
    for t, which, change in ends:
        total += (t - last) * (open_now[0] > 0 and open_now[1] == 0)
        open_now[which] += change
        last = t
    return total


def test_a_real_profile(samples):
    """The device waits for data where the host loads, nothing runs and nothing is launched."""
    trace = pasta.open(samples / "kineto" / "param_resnet_kineto.json.gz")
    called = trace.scan("call").select("pid", "correlation", begin="ts")
    works = [trace.scan(table).select("pid", "ts", "dur", "correlation") for table in ("kernel", "copy")]  # fmt: skip
    joined = pl.concat(works).join(called, on=["pid", "correlation"], how="left").collect()
    covering = [(min(begin or ts, ts), ts + dur) for ts, dur, begin in joined.select("ts", "dur", "begin").rows()]  # fmt: skip
    spans = trace.scan("span").filter(pl.col("name").str.contains("DataLoader")).collect()
    loads = [(ts, ts + dur) for ts, dur in spans.select("ts", "dur").rows()]
    report = pasta.run("data_loading", trace=trace)
    assert report.tables["waiting"]["wait_ns"].sum() == sweep(loads, covering)
    assert report.tables["loaders"].select("batches", "load_ns").rows() == [(30, spans["dur"].sum())]  # fmt: skip
