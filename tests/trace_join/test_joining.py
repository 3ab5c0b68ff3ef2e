"""Joining two runs of a made-up program: what belongs together, and what cannot be matched."""

from __future__ import annotations

import random

import polars as pl
import pytest

from pasta.trace import Trace
from pasta.trace_join import join_traces
from tests.trace_join.two_runs import (
    MEMORY_START,
    TIMELINE_START,
    Launch,
    Program,
    join_losses,
    lacking,
    longest_common,
    memory_run,
    program,
    timeline_run,
)

LAUNCH = ["rank", "pid", "launch_id"]


def keys(launches) -> list[object]:
    return [(launch.name, launch.grid) for launch in launches]


def most_matches(ours: Program, theirs: Program) -> int:
    """How many launches can be matched, stream by stream."""
    places = {(x.rank, x.process, x.device, x.stream) for x in ours.launches}
    return sum(longest_common(keys(ours.of(*p)), keys(theirs.of(*p))) for p in places)


def owned(trace: Trace, table: str) -> pl.DataFrame:
    """Rows of a table with the kernel that they belong to."""
    kernels = trace.scan("kernel").select(*LAUNCH, "name", "registers", "dur", kernel_ts="ts")
    return trace.scan(table).join(kernels, on=LAUNCH, how="inner").collect()


@pytest.fixture
def chance():
    return random.Random(20261128)


SHAPES = [
    {},
    {"streams": 3},
    {"ranks": 2, "streams": 2},
    {"ranks": 2, "processes": 3, "devices": 2, "streams": 2, "launches": 80},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_same_launches_find_each_other(tmp_path, chance, shape):
    whole = program(chance, **shape)
    joined = join_traces(
        timeline_run(tmp_path / "a", whole), memory_run(tmp_path / "b", whole), tmp_path / "c"
    )
    for share in joined.shares:
        count = len(whole.of(share.rank))
        assert (share.timeline_launches, share.memory_launches, share.matched) == (count,) * 3
        assert share.doubtful == 0
    trace = Trace.open(joined.path)
    assert join_losses(trace) == {}
    for table, number in (("touch", "reads"), ("access", "request"), ("event", "count")):
        rows = owned(trace, table)
        assert rows.height == trace.rows(table) > 0
        assert (rows[number] == rows["registers"]).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("names", [3, 10_000])
def test_launches_that_one_run_lacks_do_not_shift_the_rest(tmp_path, chance, shape, names):
    whole = program(chance, **shape, names=names)
    ours, theirs = lacking(chance, whole, 0.1), lacking(chance, whole, 0.1)
    joined = join_traces(
        timeline_run(tmp_path / "a", ours), memory_run(tmp_path / "b", theirs), tmp_path / "c"
    )
    matched = sum(share.matched for share in joined.shares)
    assert matched == most_matches(ours, theirs)
    trace = Trace.open(joined.path)
    rows = owned(trace, "touch")
    assert rows.height == trace.rows("touch") == 2 * len(theirs.launches)
    name_of = {launch.number: launch.name for launch in whole.launches}
    assert [name_of[number] for number in rows["reads"]] == rows["name"].to_list()
    both = rows.filter(pl.col("registers").is_not_null())
    assert both.height == 2 * matched
    if names == 10_000:
        assert (both["reads"] == both["registers"]).all()
    kernels = trace.scan("kernel").collect()
    alone = kernels.filter(pl.col("dur").is_null())
    assert alone.height == len(theirs.launches) - matched
    assert kernels.select(LAUNCH).is_unique().all()
    lost = join_losses(trace)
    assert lost["launches of the memory run that the timeline run lacks"] == alone.height
    lacked = lost["launches of the timeline run that the memory run lacks"]
    assert lacked == len(ours.launches) - matched


def test_kernels_of_the_timeline_stay_as_they_are(tmp_path, chance):
    whole = program(chance, ranks=2, streams=3)
    ours, theirs = lacking(chance, whole, 0.2), lacking(chance, whole, 0.2)
    timeline = timeline_run(tmp_path / "a", ours)
    joined = join_traces(timeline, memory_run(tmp_path / "b", theirs), tmp_path / "c")
    trace = Trace.open(joined.path)
    for table in ("kernel", "call", "span", "process"):
        before = timeline.scan(table).collect()
        after = trace.scan(table)
        if table == "kernel":
            after = after.filter(pl.col("dur").is_not_null())
        assert (
            after.collect()
            .sort("rank", "pid", pl.all())
            .equals(before.sort("rank", "pid", pl.all()))
        )


def test_of_equal_steps_it_cannot_be_told_which_is_missing(tmp_path):
    step = [("a", 1), ("b", 1), ("a", 2)]
    names = step * 4
    launches = [Launch(n, 0, 0, 0, 0, name, grid) for n, (name, grid) in enumerate(names, 1)]
    runs = (Program(launches), Program(launches[:-3]))
    joined = join_traces(
        timeline_run(tmp_path / "a", runs[0]), memory_run(tmp_path / "b", runs[1]), tmp_path / "c"
    )
    [share] = joined.shares
    assert (share.matched, share.doubtful) == (9, 9)
    assert str(share).endswith("; 9 of them could as well be an alike one beside")
    lost = join_losses(Trace.open(joined.path))
    assert lost["matched launches beside an unmatched one of the same name and size"] == 9


def test_a_tensor_lives_at_the_time_of_its_launch(tmp_path, chance):
    whole = program(chance, launches=200)
    ours, theirs = lacking(chance, whole, 0.1), lacking(chance, whole, 0.1)
    joined = join_traces(
        timeline_run(tmp_path / "a", ours), memory_run(tmp_path / "b", theirs), tmp_path / "c"
    )
    trace = Trace.open(joined.path)
    memory = trace.scan("memory").collect()
    assert memory["ts"].is_sorted()
    times = memory.pivot("event", index=["pid", "object_id"], values="ts")
    touched = owned(trace, "touch").filter(pl.col("object_id") > 0, pl.col("dur").is_not_null())
    lives = touched.join(times, on=["pid", "object_id"])
    assert lives.height == touched.height > 100
    assert (lives["allocate"] <= lives["kernel_ts"]).all()
    assert (lives["kernel_ts"] < lives["release"]).all()
    assert times["allocate"].min() > TIMELINE_START - 10_000
    assert times["release"].max() < MEMORY_START
