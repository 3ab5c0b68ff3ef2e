"""`hang` on traces of programs that stand still, recorded to their end or not."""

from __future__ import annotations

import pyarrow as pa
import pytest

import pasta
from pasta.schema import arrow_schema
from pasta.trace_writer import TraceWriter
from tests.tools.hung_ranks import MAIN, MS, collective, span

BEHIND = (
    "rank 1 is behind in communicator 0: its last operation is number {}, {}; others have reached 3"
)

SPANS = [
    span("run", 0, level="run"),
    span("allreduce", 40 * MS),
    span("step 1", 10 * MS, level="step"),
    span("forward", 20 * MS, level="phase", dur=5 * MS),
    span("fetch", 30 * MS, tid=101),
    span("run", 0, level="run"),
    span("matmul", 25 * MS, span_id=0),
    span("matmul", 25 * MS, span_id=900, dur=2 * MS),
]


def test_open_spans_of_each_thread_the_innermost_last(make_trace):
    sample = {"pid": MAIN, "tid": MAIN, "ts": 90 * MS, "kind": "hang", "stack_id": 0}
    threads = [{"pid": MAIN, "tid": 101, "name": name} for name in (None, "loader")]
    report = pasta.run("hang", make_trace(span=SPANS, sample=[sample], thread=threads))
    rows = report.tables["open"].select("tid", "thread", "name", "open_ns").rows()
    assert rows == [
        (MAIN, "thread 100", "run", 90 * MS),
        (MAIN, "thread 100", "step 1", 80 * MS),
        (MAIN, "thread 100", "allreduce", 50 * MS),
        (101, "loader", "fetch", 60 * MS),
    ]
    assert report.findings == [
        "rank 0, process 100, thread 100: in allreduce (operator) for 50.00 ms"
    ]
    assert report.facts == {"open_ranges": 4}


def test_without_a_main_thread_the_span_opened_last_counts(make_trace):
    spans = [
        span("wait", 40 * MS, tid=7),
        span("poll", 50 * MS, tid=8),
        span("end", 60 * MS, dur=0),
    ]
    report = pasta.run("hang", make_trace(span=spans))
    assert report.findings == ["rank 0, process 100, thread 8: in poll (operator) for 10.00 ms"]


def test_ranks_that_lag_behind_or_never_came(make_trace):
    collectives = [
        *(collective(0, number) for number in range(4)),
        *(collective(1, number) for number in range(2)),
        *(collective(2, number) for number in range(4)),
        collective(1, 70, peer=0),
        collective(1, 71, communicator=""),
        collective(0, 9, communicator="tensor", members=[0, 1, 5]),
    ]
    waiting = span("sleep", 3 * MS, rank=3)
    report = pasta.run("hang", make_trace(collective=collectives, span=[waiting]))
    columns = ["communicator", "rank", "sequence", "furthest", "behind", "operation"]
    assert report.tables["progress"].select(columns).rows() == [
        ("0", 0, 3, 3, 0, "allreduce"),
        ("0", 1, 1, 3, 2, "allreduce"),
        ("0", 2, 3, 3, 0, "allreduce"),
        ("0", 3, None, 3, None, None),
        ("tensor", 0, 9, 9, 0, "allreduce"),
        ("tensor", 1, None, 9, None, None),
    ]
    reached = "whose others have reached number"
    assert report.findings[:3] == [
        f"rank 3 has taken part in no operation of communicator 0, {reached} 3",
        f"rank 1 has taken part in no operation of communicator tensor, {reached} 9",
        BEHIND.format(1, "allreduce"),
    ]


def test_last_collective_and_last_kernel_of_each_rank(make_trace):
    kernel = {"pid": MAIN, "device": 0, "dur": MS}
    kernels = [
        kernel | {"rank": 0, "name": "last", "ts": 8 * MS, "dur": None},
        kernel | {"rank": 0, "name": "first", "ts": 2 * MS},
        kernel | {"rank": 1, "name": "only", "ts": 6 * MS},
    ]
    collectives = [collective(0, 5), collective(0, 3), collective(1, 2, ts=11 * MS, dur=MS)]
    report = pasta.run("hang", make_trace(kernel=kernels, collective=collectives))
    found = report.tables["last_kernel"].select("rank", "name", "begun_ns", "ended_ns")
    assert found.rows() == [(0, "last", 4 * MS, None), (1, "only", 6 * MS, 5 * MS)]
    found = report.tables["last_collective"].select("rank", "sequence", "begun_ns", "ended_ns")
    assert found.rows() == [(0, 5, 7 * MS, 6.5 * MS), (1, 2, MS, 0)]


def test_the_newest_python_stack_of_each_thread(make_trace):
    sample = {"pid": MAIN, "tid": MAIN, "kind": "hang"}
    samples = [
        sample | {"ts": 5, "stack_id": 1},
        sample | {"ts": 9, "stack_id": 2},
        sample | {"ts": 9, "stack_id": 3, "tid": 101},
        sample | {"ts": 99, "stack_id": 1, "kind": "on_cpu"},
    ]
    named = {1: ["old"], 2: ["main", "train", "wait"], 3: ["worker"]}
    frames = [
        {
            "pid": MAIN,
            "stack_id": stack,
            "depth": depth,
            "function": name,
            "file": "a.py",
            "line": 7,
        }
        for stack, names in named.items()
        for depth, name in enumerate(names)
    ]
    report = pasta.run("hang", make_trace(sample=samples, frame=frames * 2))
    found = report.tables["stacks"].select("tid", "function", "at").rows()
    assert found == [(MAIN, name, "a.py:7") for name in named[2]] + [(101, "worker", "a.py:7")]
    assert report.findings == [
        "rank 0, process 100, thread 100: Python is in wait at a.py:7",
        "no range is open: nothing tells where the program stands",
    ]


@pytest.mark.parametrize("state", ["recording", "complete"])
def test_a_trace_that_is_still_recorded(tmp_path, state):
    writer = TraceWriter(tmp_path / "t", {"command": "live"})
    for rank in (0, 1):
        part = writer.part(rank, file_seconds=1000.0)
        for rows in (SPANS[:3], SPANS[3:], [collective(rank, 3 - rank, ts=2 * MS)]):
            table = "collective" if "sequence" in rows[0] else "span"
            given = [row | {"rank": rank} for row in rows]
            part.append(table, pa.Table.from_pylist(given, schema=arrow_schema(table)))
            part.flush()
        if state == "complete":
            part.finish()
    if state == "complete":
        writer.finish()
    trace = pasta.open(tmp_path / "t")
    assert trace.info["state"] == state
    report = pasta.run("hang", trace=trace)
    assert report.tables["open"]["name"].to_list() == ["run", "step 1", "allreduce", "fetch"] * 2
    assert report.findings == [
        BEHIND.format(2, "allgather"),
        *(f"rank {n}, process 100, thread 100: in allreduce (operator) for 0 ns" for n in (0, 1)),
    ]
