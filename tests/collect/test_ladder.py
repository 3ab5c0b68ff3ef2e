"""Of what would serve a tool, what the machine does not allow is left out, and said to be."""

import sys

import polars as pl
import pytest

import pasta
from pasta.collect.ebpf import bpftrace
from pasta.collect.ladder import those_that_work
from pasta.collect.recording import record_command
from pasta.collect.selection import Selection
from pasta.errors import CollectError


@pytest.fixture
def unprivileged(monkeypatch):
    monkeypatch.setattr(bpftrace.shutil, "which", lambda _program: "/usr/bin/bpftrace")
    monkeypatch.setattr(bpftrace.os, "geteuid", lambda: 1000)


@pytest.mark.usefixtures("unprivileged")
def test_what_only_root_may_do_is_left_out_with_the_reason():
    working, reasons = those_that_work(
        {"torch": "operators", "offcpu": "user", "processes": "tree"}, ["python"]
    )
    assert working == {"torch": "operators"}
    assert reasons == [
        "--with offcpu: bpftrace works for root only; run pasta as root",
        "--with processes: bpftrace works for root only; run pasta as root",
    ]


@pytest.mark.usefixtures("unprivileged")
def test_where_nothing_works_the_first_reason_is_the_error():
    with pytest.raises(CollectError, match="--with offcpu: bpftrace works for root only"):
        those_that_work({"offcpu": "user", "processes": "tree"}, ["python"])


@pytest.mark.usefixtures("unprivileged")
def test_what_only_root_may_do_is_left_out_of_a_recording_and_told(tmp_path):
    chosen = {"torch": "operators", "offcpu": "user", "processes": "tree"}
    command = [sys.executable, "-c", "import pasta; pasta.annotate('x').__enter__()"]
    recorded = record_command(command, tmp_path / "t", chosen, Selection())
    reasons = [
        f"--with {name}: bpftrace works for root only; run pasta as root"
        for name in ("offcpu", "processes")
    ]
    assert recorded.notes == [f"recorded without what is not allowed here: {r}" for r in reasons]
    trace = pasta.open(tmp_path / "t")
    assert [each["name"] for each in trace.info["collectors"]] == ["torch:operators"]
    losses = trace.losses().filter(pl.col("reason").str.contains("root only"))
    assert losses.select("collector", "reason").sort("collector").rows() == [
        ("offcpu", reasons[0]),
        ("processes", reasons[1]),
    ]
    with pytest.raises(CollectError, match="--with processes: bpftrace works for root only"):
        record_command(["true"], tmp_path / "u", {"processes": "tree"}, Selection())
