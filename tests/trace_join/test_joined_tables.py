"""What becomes of each table of two runs, and of what only one of them has."""

from __future__ import annotations

import random

import polars as pl
import pytest

import pasta
from pasta.errors import TraceError
from pasta.trace import Trace
from pasta.trace_join import join_traces, reading
from tests.trace_join.two_runs import (
    MEMORY_START,
    TIMELINE_START,
    Launch,
    Program,
    join_losses,
    lacking,
    memory_run,
    program,
    timeline_run,
    written,
)

PID, MEMORY_PID = 100, 3000


@pytest.fixture
def made() -> Program:
    return program(random.Random(4), launches=20)


@pytest.fixture
def joined(tmp_path):
    """A function that joins a timeline run and a memory run, each with more rows."""

    def join(ours: Program, theirs: Program, *, timeline=None, memory=None) -> Trace:
        runs = (
            timeline_run(tmp_path / "a", ours, **timeline or {}),
            memory_run(tmp_path / "b", theirs, **memory or {}),
        )
        return Trace.open(join_traces(*runs, tmp_path / "c").path)

    return join


def row(pid: int, **columns: object) -> dict[str, object]:
    return {"rank": 0, "pid": pid, **columns}


def test_objects_of_the_memory_run_replace_those_of_the_same_spaces(joined, made):
    own = {"ts": TIMELINE_START, "event": "allocate", "object_id": 3, "bytes": 1}
    memory = [row(PID, space=space, **own) for space in ("tensor", "device", "host")]
    touch = [row(PID, space="tensor", object_id=3, span_id=5, launch_id=0)]
    pools = [row(MEMORY_PID, ts=MEMORY_START, space="host", object_id=0, event="allocate")]
    trace = joined(
        made, made, timeline={"memory": memory, "touch": touch}, memory={"memory": pools}
    )
    rows = trace.scan("memory").collect()
    assert rows.filter(pl.col("bytes") == 1)["space"].sort().to_list() == ["device", "host"]
    assert rows.filter(pl.col("space") == "tensor").height == 2 * len(made.launches)
    assert trace.scan("touch").filter(pl.col("span_id") > 0).collect().height == 0
    lost = join_losses(trace)
    assert {reason: count for reason, count in lost.items() if "memory spaces" in reason} == {
        "rows of memory of the timeline run in memory spaces that the memory run has too": 1,
        "rows of touch of the timeline run in memory spaces that the memory run has too": 1,
    }


def test_rows_of_the_memory_run_that_belong_to_no_launch_are_counted(joined, made):
    touch = [
        row(MEMORY_PID, launch_id=9999, space="device", object_id=1),
        row(MEMORY_PID, launch_id=0, space="device", object_id=1, span_id=4),
        row(MEMORY_PID, launch_id=1, space="device", object_id=1, span_id=4),
    ]
    metric = [
        row(MEMORY_PID, launch_id=0, ts=MEMORY_START, name="clock", value=1.0),
        row(MEMORY_PID, launch_id=2, ts=MEMORY_START + 14_000, name="global_reads_4", value=3.0),
    ]
    trace = joined(made, made, memory={"touch": touch, "metric": metric})
    on_device = trace.scan("touch").filter(pl.col("space") == "device").collect()
    assert on_device.select("pid", "launch_id", "span_id").rows() == [(PID, 1, 0)]
    kernels = trace.scan("kernel").filter(pl.col("launch_id") == 2).collect()
    metrics = trace.scan("metric").select("pid", "launch_id", "ts", "value").collect().rows()
    assert metrics == [(PID, 2, kernels["ts"].item(), 3.0)]
    assert join_losses(trace) == {
        "touches by operators of the memory run": 1,
        "rows of touch of the memory run without a known launch": 1,
        "rows of metric of the memory run without a known launch": 1,
    }


def test_a_stream_that_one_run_lacks_does_not_shift_the_others(joined):
    whole = program(random.Random(5), streams=4, launches=80, names=10_000)
    ours = Program([launch for launch in whole.launches if launch.stream != 1])
    theirs = Program([launch for launch in whole.launches if launch.stream != 2])
    trace = joined(ours, theirs)
    kernels = trace.scan("kernel").collect()
    touched = trace.scan("touch").join(kernels.lazy(), on=["rank", "pid", "launch_id"]).collect()
    both = touched.filter(pl.col("registers").is_not_null())
    assert (both["reads"] == both["registers"]).all()
    assert set(both["stream"]) == {7, 10}
    alone = kernels.filter(pl.col("dur").is_null())
    assert alone.height == len(theirs.of(0, 0, 0, 1))
    assert alone.select("context", "stream").unique().rows() == [
        (2, 39)
    ]  # no stream of the timeline
    assert alone["correlation"].to_list() == [0] * alone.height


def test_a_process_that_only_the_memory_run_has_keeps_its_rows_under_a_free_pid(joined):
    whole = program(random.Random(6), processes=3, names=10_000)
    ours = Program([launch for launch in whole.launches if launch.process != 1])
    trace = joined(ours, whole, timeline={"process": [row(2990, started=TIMELINE_START - 9)]})
    touched = trace.scan("touch").filter(pl.col("object_id") == 0).collect()
    by_pid = dict(touched.group_by("pid").len().rows())
    counts = [len(whole.of(0, process)) for process in range(3)]
    assert by_pid == {100: counts[0], 2991: counts[1], 102: counts[2]}
    process = trace.scan("process").filter(pl.col("pid") == 2991).collect()
    assert process.select("command", "started").rows() == [("process 1", TIMELINE_START - 9 + 1)]
    assert join_losses(trace) == {
        "launches of the memory run that the timeline run lacks": counts[1],
        "processes that only the memory run has": 1,
    }


def test_threads_of_the_memory_run_are_told_from_those_of_the_timeline(joined, made):
    threads = [row(PID, tid=tid, name=f"ours {tid}") for tid in (PID, 110, 111)]
    others = [row(MEMORY_PID, tid=tid, name=f"theirs {tid}") for tid in (MEMORY_PID, 110, 120, 130)]
    memory = [
        row(MEMORY_PID, tid=tid, ts=MEMORY_START, space="pool", object_id=1, event="allocate")
        for tid in (MEMORY_PID, 110, 120)
    ]
    more = {"timeline": {"thread": threads}, "memory": {"thread": others, "memory": memory}}
    trace = joined(made, made, **more)
    names = dict(trace.scan("thread").select("tid", "name").collect().rows())
    assert {tid: name for tid, name in names.items() if name.startswith("ours")} == {
        PID: f"ours {PID}", 110: "ours 110", 111: "ours 111",
    }  # fmt: skip
    used = trace.scan("memory").filter(pl.col("space") == "pool").collect()["tid"].to_list()
    assert used[0] == PID
    assert [names[tid] for tid in used[1:]] == ["theirs 110", "theirs 120"]
    assert len(names) == 5


def test_call_stacks_of_both_runs_are_kept_apart(joined, made):
    ours = [row(PID, stack_id=4, depth=0, function="ours")]
    theirs = [row(MEMORY_PID, stack_id=4, depth=0, function="theirs")]
    memory = [
        row(MEMORY_PID, ts=MEMORY_START, space="pool", object_id=1, event="allocate", stack_id=4)
    ]
    more = {"timeline": {"frame": ours}, "memory": {"frame": theirs, "memory": memory}}
    trace = joined(made, made, **more)
    frames = dict(trace.scan("frame").select("stack_id", "function").collect().rows())
    assert sorted(frames.values()) == ["ours", "theirs"]
    assert frames[4] == "ours"
    rows = trace.scan("memory").filter(pl.col("space") == "pool").collect()
    assert frames[rows["stack_id"].item()] == "theirs"


def test_losses_of_both_runs_are_kept(joined, made):
    def loss(pid: int, reason: str, ts: int | None) -> dict[str, object]:
        return row(pid, collector="x", reason=reason, count=2, first_ts=ts)

    ours = [loss(PID, "ours", 77)]
    at = MEMORY_START + 7000
    theirs = [loss(MEMORY_PID, "theirs", at), loss(1, "launcher's", None)]
    trace = joined(made, made, timeline={"loss": ours}, memory={"loss": theirs})
    first = trace.scan("kernel").select(pl.col("ts").min()).collect().item()
    found = trace.scan("loss").select("pid", "reason", "count", "first_ts").collect().rows()
    assert sorted(found) == [
        (1, "launcher's", 2, None),
        (PID, "ours", 2, 77),
        (PID, "theirs", 2, first),
    ]


def test_launches_without_an_id_of_their_own_are_not_matched(joined, made):
    own = {"ts": TIMELINE_START, "dur": 5, "name": "kernel 1", "grid_x": 1}
    ours = [row(PID, launch_id=0, **own), row(PID, launch_id=1, **own)]
    trace = joined(made, made, timeline={"kernel": ours})
    count = len(made.launches)
    lost = join_losses(trace)
    assert lost["launches of the timeline run without a time or an id of their own"] == 3
    assert lost["launches of the memory run that the timeline run lacks"] == 1
    assert trace.rows("kernel") == count + 2 + 1


def test_without_calls_and_spans_the_memory_runs_are_taken(joined, tmp_path):
    whole = program(random.Random(7), launches=40)
    ours, theirs = lacking(random.Random(8), whole, 0.1), lacking(random.Random(9), whole, 0.1)
    operators = [
        row(
            MEMORY_PID, tid=MEMORY_PID, ts=MEMORY_START + 7000 * number - 50, dur=200, name="op",
            level="operator", span_id=number, parent_id=0, stack_id=0,
        )
        for number in range(1, len(theirs.launches) + 1)
    ]  # fmt: skip
    touch = [row(MEMORY_PID, launch_id=0, span_id=2, space="tensor", object_id=2)]
    trace = joined(
        ours,
        theirs,
        timeline={"call": None, "span": None},
        memory={"span": operators, "touch": touch},
    )
    kernels, calls = trace.scan("kernel").collect(), trace.scan("call").collect()
    assert calls["tid"].unique().to_list() == [PID]
    assert kernels.select("pid", "correlation").is_unique().all()
    caused = kernels.join(calls, on=["rank", "pid", "correlation"], suffix="_call")
    assert caused.height == calls.height == len(theirs.launches)
    assert (caused["ts_call"] == caused["ts"]).all()
    report = pasta.run("operator_time", tmp_path / "c")
    matched = caused.filter(pl.col("dur").is_not_null()).height
    assert report.facts["device_in_operators_ns"] == 300 * matched
    assert report.facts["kernels_in_operators"] == len(theirs.launches)
    assert trace.scan("touch").filter(pl.col("span_id") == 2).collect().height == 1


def test_calls_that_caused_several_kernels_are_kept_once(joined, made):
    """As those of a CUDA graph, whose kernels have one correlation in the timeline."""
    graph = {"context": 1, "stream": 7, "correlation": 1000, "dur": 1, "grid_x": 1}
    shared = {"device": 0, "name": "node", "grid_y": 1, "grid_z": 1, "block_x": 1}
    sizes = {"block_y": 1, "block_z": 1, "external_id": 0, "graph_id": 6, "graph_node_id": 0}
    late = TIMELINE_START + 10**6
    ours = [
        row(PID, launch_id=900 + n, ts=late + n, **{**graph, **shared, **sizes}) for n in range(2)
    ]
    late = MEMORY_START + 10**6
    own = {**graph, **shared, **sizes, "context": 900, "stream": 40}
    theirs = [
        row(MEMORY_PID, **{**own, "launch_id": 900 + n, "ts": late + n, "correlation": 900 + n})
        for n in range(2)
    ]
    calls = [
        row(MEMORY_PID, tid=MEMORY_PID, ts=late + n, dur=0, correlation=900 + n, stack_id=0)
        for n in range(2)
    ]
    trace = joined(
        made, made,
        timeline={"kernel": ours, "call": None, "span": None},
        memory={"kernel": theirs, "call": calls},
    )  # fmt: skip
    assert trace.scan("call").filter(pl.col("correlation") == 1000).collect().height == 1


def test_tools_work_on_the_joined_trace_as_on_any(joined, tmp_path):
    whole = program(random.Random(11), ranks=2, streams=2, launches=60)
    trace = joined(lacking(random.Random(12), whole, 0.05), lacking(random.Random(13), whole, 0.05))
    report = pasta.run("working_set", tmp_path / "c")
    assert report.facts["space"] == "tensor"
    largest = trace.scan("memory").select(pl.col("bytes").max()).collect().item()
    assert report.facts["working_set_bytes"] == largest
    assert report.facts["kind"] == "kernel launches"
    operators = pasta.run("operator_time", tmp_path / "c")
    ours = pasta.run("operator_time", tmp_path / "a")
    alone = trace.scan("kernel").filter(pl.col("dur").is_null()).collect().height
    assert operators.facts["kernels"] == ours.facts["kernels"] + alone
    for fact in ("device_ns", "device_in_operators_ns", "kernels_in_operators"):
        assert operators.facts[fact] == ours.facts[fact] > 0


def test_nothing_depends_on_the_size_of_the_pieces_that_are_read(tmp_path, monkeypatch):
    whole = program(random.Random(14), ranks=2, processes=2, streams=3, launches=60)
    ours, theirs = lacking(random.Random(15), whole, 0.1), lacking(random.Random(16), whole, 0.1)
    timeline, memory = timeline_run(tmp_path / "a", ours), memory_run(tmp_path / "b", theirs)
    at_once = Trace.open(join_traces(timeline, memory, tmp_path / "c").path)
    monkeypatch.setattr(reading, "BATCH_ROWS", 7)
    in_pieces = Trace.open(join_traces(timeline, memory, tmp_path / "d").path)
    assert at_once.tables() == in_pieces.tables()
    for table in at_once.tables():
        found = [trace.scan(table).collect().sort(pl.all()) for trace in (at_once, in_pieces)]
        assert found[0].equals(found[1]), table


def test_the_joined_trace_says_how_it_was_made(joined, made):
    info = joined(made, Program(made.launches[:-1])).info
    assert info["state"] == "complete"
    assert info["command"] == "made up"
    assert info["ended"] == "exit 0"
    assert [collector["name"] for collector in info["collectors"]] == ["a", "b"]
    count = len(made.launches)
    assert info["joined"]["launches"] == [
        {
            "rank": 0,
            "timeline_launches": count,
            "memory_launches": count - 1,
            "matched": count - 1,
            "doubtful": info["joined"]["launches"][0]["doubtful"],
            "timeline_share": (count - 1) / count,
            "memory_share": 1.0,
        }
    ]
    assert info["joined"]["memory"]["collectors"] == [{"name": "b"}]


@pytest.mark.parametrize(
    ("tables", "spans", "note"),
    [
        ({}, False, None),
        ({"call": None}, False, "record the timeline with cuda:calls"),
        ({"span": None}, True, "spans of the memory run are left out"),
        ({"span": None}, False, None),
        ({"span": None, "call": None}, True, None),
    ],
)
def test_what_cannot_be_told_of_operators_is_said(tmp_path, made, tables, spans, note):
    span = [row(MEMORY_PID, ts=MEMORY_START, dur=9, span_id=1, parent_id=0, name="op")]
    timeline = timeline_run(tmp_path / "a", made, **tables)
    memory = memory_run(tmp_path / "b", made, **({"span": span} if spans else {}))
    notes = join_traces(timeline, memory, tmp_path / "c").notes
    assert len(notes) == (note is not None)
    assert note is None or note in notes[0]


def test_ranks_have_the_folders_of_the_timeline(tmp_path):
    whole = program(random.Random(17), ranks=2)
    timeline, memory = timeline_run(tmp_path / "a", whole), memory_run(tmp_path / "b", whole)
    join_traces(timeline, memory, tmp_path / "c")
    folders = sorted(path.name for path in (tmp_path / "c").iterdir())
    assert folders == ["rank-00000", "rank-00001", "trace.json"]
    trace = Trace.open(tmp_path / "c")
    for rank in range(2):
        rows = pl.read_parquet(tmp_path / "c" / f"rank-0000{rank}" / "touch" / "*.parquet")
        assert rows["rank"].unique().to_list() == [rank]
    assert trace.info["ranks"] == [0, 1]


def test_the_runs_may_lie_in_the_folder_of_the_joined_trace(tmp_path, made):
    out = tmp_path / "t"
    timeline = timeline_run(out / "runs" / "timeline", made)
    memory = memory_run(out / "runs" / "memory", made)
    join_traces(timeline, memory, out)
    assert Trace.open(out).rows("kernel") == len(made.launches)


def test_another_file_in_the_folder_is_not_overwritten(tmp_path, made):
    timeline, memory = timeline_run(tmp_path / "a", made), memory_run(tmp_path / "b", made)
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "mine").touch()
    with pytest.raises(TraceError, match="not empty"):
        join_traces(timeline, memory, tmp_path / "t")


def test_what_is_no_such_run_is_one_line(tmp_path, made):
    timeline, memory = timeline_run(tmp_path / "a", made), memory_run(tmp_path / "b", made)
    launch = Launch(1, 0, 0, 0, 0, "x", 1)
    empty = written(tmp_path / "e", 1, process=[row(1, started=1)])
    for ours, theirs, message in (
        (memory, timeline, "name the timeline run first"),
        (empty, memory, "has no kernels, so it is no timeline run"),
        (timeline, empty, "has no kernels, so it is no memory run"),
        (timeline, timeline_run(tmp_path / "a2", Program([launch])), "record the memory run with"),
    ):
        with pytest.raises(TraceError, match=message) as caught:
            join_traces(ours, theirs, tmp_path / "c")
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "c").exists()
