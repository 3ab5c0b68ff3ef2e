"""Chrome traces of many recorders: recordings by this project, samples, and events by hand."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pasta.collect.importers.kineto import Kineto
from pasta.collect.importing import import_trace
from pasta.collect.sources import open_sources
from pasta.errors import InputError
from pasta.trace import Trace
from tests.collect.importers.import_help import imported_content, losses, rows

RECORDED = Path(__file__).parent / "recorded"


@pytest.fixture
def imported(tmp_path):
    """A function that imports events, or a text."""

    def run(events, *, strict=False, **metadata):
        if isinstance(events, list):
            events = json.dumps({**metadata, "traceEvents": events})
        return imported_content(events, tmp_path, strict=strict)

    return run


def event(ph, name="a", ts=0, **more):
    return {"ph": ph, "name": name, "pid": 1, "tid": 2, "ts": ts, **more}


def named(kind, pid, name, tid=0):
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def nested(trace):
    """Name of each span -> name of its parent."""
    spans = trace.scan("span").collect()
    names = dict(spans.select("span_id", "name").rows())
    return {name: names.get(parent) for name, parent in spans.select("name", "parent_id").rows()}


def test_complete_events_and_pairs_nest(imported):
    report, trace = imported(
        [
            event("X", "outer", 1.001, dur=20, cat="fee"),
            event("B", "b", 2, cat="Op"),
            event("B", "c", 2),
            event("X", "inner", 3, dur=0.5, cat="x"),
            event("E", ts=9),
            {"ph": "E", "pid": 1, "tid": 2, "ts": 9},
        ],
        displayTimeUnit="ns",
    )
    assert report.format == "Chrome trace (JSON)"
    assert rows(trace, "span", "pid", "tid", "ts", "dur", "level", "name") == [
        (1, 2, 1001, 20000, "function", "outer"),
        (1, 2, 2000, 7000, "operator", "b"),
        (1, 2, 2000, 7000, "annotation", "c"),
        (1, 2, 3000, 500, "annotation", "inner"),
    ]
    assert nested(trace) == {"outer": None, "b": "outer", "c": "b", "inner": "c"}
    assert report.losses == []


def test_decimal_microseconds_beyond_what_a_float_holds(imported):
    _, trace = imported('[{"ph":"X","ts":1672924881307000.123,"dur":0.001,"pid":1,"tid":1}]')
    assert rows(trace, "span", "ts", "dur") == [(1672924881307000123, 1)]


def test_asynchronous_events_have_threads_of_their_own(imported):
    report, trace = imported(
        [
            event("b", "request", 1, cat="q", id="0x1"),
            event("b", "request", 2, cat="q", id="0x2"),
            event("b", "token", 3, cat="q", id="0x1"),
            event("n", "mark", 4, cat="q", id="0x1"),
            event("e", "token", 5, cat="q", id="0x1"),
            event("e", "request", 6, cat="q", id="0x1"),
            event("e", "request", 7, cat="q", id="0x2"),
            event("S", "old", 8, cat="o", id2={"local": 1}),
        ]
    )
    assert rows(trace, "span", "name", "ts", "dur") == [
        ("request", 1000, 5000),
        ("request", 2000, 5000),
        ("token", 3000, 2000),
        ("mark", 4000, 0),
        ("old", 8000, None),
    ]
    named_threads = dict(rows(trace, "thread", "tid", "name"))
    tracks = [named_threads[tid] for (tid,) in rows(trace, "span", "tid")]
    assert tracks == ["async q 0x1", "async q 0x2", "async q 0x1", None, "async o 1/1"]
    assert nested(trace)["token"] == "request"
    assert losses(report) == {
        "begin without an end: kept as unfinished": 1,
        "tid that is text or too large: renumbered": 3,
    }


def test_asynchronous_events_of_one_id_end_in_their_process_first(imported):
    _, trace = imported(
        [
            event("b", "request", 1, cat="q", id=1, pid=1),
            event("b", "request", 2, cat="q", id=1, pid=2),
            event("e", "request", 4, cat="q", id=1, pid=1),
            event("e", "request", 9, cat="q", id=1, pid=3),
        ]
    )
    assert rows(trace, "span", "pid", "ts", "dur") == [(1, 1000, 3000), (2, 2000, 7000)]


def test_instants_counters_and_flows(imported):
    report, trace = imported(
        [
            event("i", "mark", 5, s="t"),
            event("C", "memory", 6, args={"used": 3, "free": 2.5, "note": "x"}),
            event("C", "load", 7, args={"value": 1}),
            event("s", "flow", 6, id=1),
            {"ph": "f", "name": "flow", "id": 1, "pid": 1, "bp": "e"},
            event("N", "object", 6, id=1),
        ]
    )
    assert rows(trace, "span", "name", "ts", "dur") == [("mark", 5000, 0)]
    assert rows(trace, "metric", "pid", "ts", "name", "value") == [
        (1, 6000, "memory.used", 3.0),
        (1, 6000, "memory.free", 2.5),
        (1, 7000, "load", 1.0),
    ]
    assert losses(report) == {
        "flow (an arrow between events): left out": 2,
        "event of phase 'N': left out": 1,
        "counter whose value is no number: left out": 1,
    }


def test_processes_and_threads_of_any_name(imported):
    large = 15514734831341844875
    report, trace = imported(
        [
            named("process_name", 7, "server"),
            named("thread_name", 7, "main", 8),
            event("X", "a", 1, dur=1, pid=7, tid=8),
            event("X", "b", 2, dur=1, pid="worker", tid="loop"),
            event("X", "c", 3, dur=1, pid="9", tid=large),
        ]
    )
    spans = rows(trace, "span", "pid", "tid")
    assert (spans[0], spans[2][0]) == ((7, 8), 9)
    assert spans[1][0] > 1 << 61
    assert spans[1][1] < 0
    assert spans[2][1] < 0
    assert [row[1:] for row in sorted(rows(trace, "thread", "pid", "name"))] == [
        ("main",),
        (str(large),),
        ("loop",),
    ]
    assert dict(rows(trace, "process", "pid", "command"))[7] == "server"
    assert losses(report) == {
        "tid that is text or too large: renumbered": 2,
        "pid that is text or too large: renumbered": 1,
    }


def test_device_lanes_of_jax(imported):
    details = "regs:32 static_shared:8 dynamic_shared:0 grid:4,2,1 block:256,1,1 occ_pct:100"
    report, trace = imported(
        [
            named("process_name", 1, "/device:GPU:0 NVIDIA H100"),
            named("thread_name", 1, "Stream #13(Compute,MemcpyD2H)", 13),
            named("thread_name", 1, "XLA Ops", 2),
            named("process_name", 701, "/host:CPU"),
            event("X", "launch", 1, dur=1, pid=701, tid=5),
            event(
                "X", "loop_fusion", 10, dur=2.5, pid=1, tid=13,
                args={"correlation_id": "77", "kernel_details": details},
            ),
            event(
                "X", "MemcpyD2H", 20, dur=1, pid=1, tid=13,
                args={"memcpy_details": "kind_src:device kind_dst:pinned size:4096 dest:0 async:1"},
            ),
            event("X", "loop_fusion", 10, dur=2.5, pid=1, tid=2),
        ],
        displayTimeUnit="ns",
    )  # fmt: skip
    assert rows(trace, "kernel", "pid", "device", "stream", "ts", "dur", "name", "correlation") == [
        (701, 0, 13, 10_000, 2_500, "loop_fusion", 77)
    ]
    shape = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers")
    assert rows(trace, "kernel", *shape) == [(4, 2, 1, 256, 1, 1, 32)]
    assert rows(trace, "kernel", "static_shared", "dynamic_shared") == [(8, 0)]
    assert rows(trace, "copy", "pid", "device", "kind", "bytes") == [(701, 0, "DtoH", 4096)]
    assert rows(trace, "device", "pid", "device", "vendor", "name") == [
        (701, 0, "nvidia", "NVIDIA H100")
    ]
    assert rows(trace, "process", "pid") == [(701,)]
    assert losses(report) == {"event that the recorder derives from a device's own: left out": 1}


def test_operations_are_the_work_of_a_tpu(imported):
    _, trace = imported(
        [
            named("process_name", 3, "/device:TPU:1"),
            named("thread_name", 3, "XLA Ops", 2),
            named("thread_name", 3, "XLA Modules", 1),
            event("X", "fusion.1", 10, dur=2, pid=3, tid=2),
            event("X", "jit_f", 10, dur=2, pid=3, tid=1),
        ]
    )
    assert rows(trace, "kernel", "pid", "device", "name") == [(3, 1, "fusion.1")]


def test_lanes_of_other_recorders(imported):
    _, trace = imported(
        [
            {},
            named("process_name", 2, "0 CPU HIP API"),
            named("process_name", 1, "1 COPY"),
            named("process_name", 6, "2 GPU1"),
            event("X", "hipLaunchKernel", 1, dur=1, pid=2, tid=50),
            event("X", "hipMemcpyHtoD", 2, dur=1, pid=1, tid=0),
            event("X", "vadd", 3, dur=1, pid=6, tid=4),
            event("X", "gemm", 5, dur=1, pid="Device 3", tid="Stream 7", cat="cuda"),
        ]
    )
    assert rows(trace, "call", "pid", "tid", "name") == [(2, 50, "hipLaunchKernel")]
    assert rows(trace, "copy", "kind") == [("HtoD",)]
    assert rows(trace, "kernel", "device", "stream", "name") == [(1, 4, "vadd"), (3, 7, "gemm")]


def test_damaged_times(imported):
    report, trace = imported(
        [
            event("X", "no end", 1),
            event("X", "negative", 2, dur=-1),
            event("X", "no start", None, dur=1),
            event("E", ts=3),
            event("B", "open", 4),
        ]
    )
    assert rows(trace, "span", "name", "dur") == [("no end", None), ("negative", None), ("open", None)]  # fmt: skip
    assert losses(report) == {
        "event without a duration: kept as unfinished": 1,
        "event with a negative duration: kept as unfinished": 1,
        "event without a start time (0, missing or no number): left out": 1,
        "end without a begin: left out": 1,
        "begin without an end: kept as unfinished": 1,
    }
    with pytest.raises(InputError, match="at event 'no end'"):
        imported([event("X", "no end", 1)], strict=True)


def test_no_time_is_none_among_times_since_1970(imported):
    epoch = 1672924881307000
    report, trace = imported([event("X", "a", epoch, dur=1), event("X", "b", 0, dur=1)])
    assert rows(trace, "span", "name") == [("a",)]
    assert sum(losses(report).values()) == 1
    report, trace = imported([event("X", "a", 5, dur=1), event("X", "b", 0, dur=1)])
    assert rows(trace, "span", "name") == [("b",), ("a",)]


def test_times_count_from_1970_where_the_recorder_says(imported):
    _, trace = imported(
        [event("X", ts=5, dur=1)], viztracer_metadata={"baseTimeNanoseconds": 10**18}
    )
    assert rows(trace, "span", "ts") == [(10**18 + 5000,)]
    assert rows(trace, "process", "started", "ended") == [(10**18 + 5000, 10**18 + 6000)]


def test_the_recording_of_py_spy(imported):
    """Begins and ends paired by hand, per thread."""
    content = (RECORDED / "py_spy.chrome.json").read_text()
    report, trace = imported(content)
    stack, expected = [], []
    for entry in json.loads(content):
        if entry["ph"] == "B":
            stack.append(entry)
        elif entry["ph"] == "E":
            begun = stack.pop()
            expected.append((begun["name"], begun["ts"] * 1000, (entry["ts"] - begun["ts"]) * 1000))
    assert sorted(rows(trace, "span", "name", "ts", "dur")) == sorted(expected)
    parents = nested(trace)
    assert parents["outer"] == "<module>"
    assert parents["inner"] == "outer"
    assert report.losses == []


def test_the_recording_of_viztracer(imported):
    content = json.loads((RECORDED / "viztracer.json").read_text(), parse_float=Decimal)
    report, trace = imported((RECORDED / "viztracer.json").read_bytes())
    complete = [entry for entry in content["traceEvents"] if entry["ph"] == "X"]
    expected = [(e["name"], e["tid"], int(e["ts"] * 1000), int(e["dur"] * 1000)) for e in complete]
    assert sorted(rows(trace, "span", "name", "tid", "ts", "dur")) == sorted(expected)
    assert {name for _, name in rows(trace, "thread", "tid", "name")} <= {"MainThread", "sleeper"}
    assert set(trace.scan("span").collect()["level"]) == {"function"}
    assert report.losses == []


def test_the_sample_of_an_accelerator_without_a_gpu(samples, tmp_path):
    file = samples / "other" / "ibm_aiu_allreduce_tp4.json"
    report = import_trace([file], tmp_path / "t")
    trace = Trace.open(tmp_path / "t")
    begins = [e for e in json.loads(file.read_text()) if e["ph"] == "B"]
    moves = [e for e in begins if "Dma" in e["name"]]
    assert report.rows["copy"] == len(moves) == 14
    assert report.rows["kernel"] == len(begins) - len(moves) == 14
    found = Counter(rows(trace, "copy", "device", "bytes"))
    assert found == Counter(
        (e["pid"], int(e["attr"]["Bytes"]) if "Bytes" in e["attr"] else None) for e in moves
    )
    assert rows(trace, "device", "device") == [(0,), (1,), (2,), (3,)]


def test_what_pytorchs_profiler_wrote_goes_to_its_importer(samples):
    files = [*(samples / "kineto").iterdir(), samples / "kineto_multirank" / "param_dlrm_8rank_kineto.tar.gz"]  # fmt: skip
    others = [*RECORDED.glob("*.json"), samples / "other" / "ibm_aiu_allreduce_tp4.json"]
    for paths, theirs in ((files, True), (others, False)):
        assert len(paths) > 3
        for source in open_sources(paths):
            assert Kineto().recognises(source) is theirs, source.name
            for _ in source.chunks:
                pass


@pytest.mark.parametrize("compressed", [False, True])
def test_a_cut_file_keeps_its_complete_events(imported, compressed):
    text = json.dumps({"traceEvents": [event("X", f"n{n}", n, dur=1) for n in range(3000)]})
    data = gzip.compress(text.encode()) if compressed else text.encode()
    report, _ = imported(data[: len(data) * 9 // 10])
    assert 2000 < report.rows["span"] < 3000
    assert any(f"{report.rows['span']} events kept" in reason for reason in losses(report))


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_damage_escapes(imported, data):
    text = bytearray((RECORDED / "py_spy.chrome.json").read_bytes()[:1500])
    odd = [
        b"null",
        b"-1",
        b"1e400",
        b"[",
        b"}",
        b"\xff",
        b'"',
        b"9" * 30,
        b'"ph":"b"',
        b"{},",
        b'"X"',
    ]
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 9))] = data.draw(st.sampled_from(odd))
    try:
        _, trace = imported(bytes(text))
    except InputError:
        return
    for table in ("span", "kernel"):
        if trace.has(table):
            assert trace.scan(table).filter(pl.col("dur") < 0).collect().is_empty()


values = st.sampled_from([None, 0, -1, 1.5, "x", "7", [], {}, 1 << 70, True, 1e300])


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.fixed_dictionaries(
            {"ph": st.sampled_from("XBEbenisCMfNSF") | values},
            optional=dict.fromkeys(
                ("name", "cat", "pid", "tid", "ts", "dur", "id", "id2", "args", "attr"), values
            ),
        ),
        max_size=6,
    )
)
def test_values_of_any_type_are_read_or_counted(imported, events):
    imported(events)
