"""Perfetto's traces, read by an independent reader and by the importer."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import pasta
from pasta import api
from tests.exports.hostile import BASE, DURATIONS, intervals, tables, trace_of
from tests.exports.perfetto_reader import read


def exported(folder, rows):
    exported = api.export(trace_of(folder / "t", rows), "perfetto", folder / "out")
    return exported, read((folder / "out").read_bytes())


def slices_of(found, category, *columns):
    every = [s for s in found.slices if s.category == category]
    return sorted((tuple(getattr(s, c) for c in columns) for s in every), key=repr)


@given(rows=tables(durations=DURATIONS | st.none()))
@settings(max_examples=60)
def test_every_interval_is_a_slice_of_its_name_and_time(tmp_path_factory, rows):
    _, found = exported(tmp_path_factory.mktemp("t"), rows)
    for table, category in (("span", "cpu_op"), ("call", "cuda_runtime"), ("kernel", "kernel")):
        columns = ("name", "ts", "dur")
        assert slices_of(found, category, *columns) == intervals(rows, table, *columns)
    assert found.times == sorted(found.times)
    for piece in found.slices:
        threads = {"7": "thread 7", "8": "thread 8", "9": "thread 9"}
        track = found.name(piece.track).removesuffix(")").split(" (")[0]
        assert track in (
            threads.values() if piece.category != "kernel" else ["GPU 0 stream 3 context 1"]
        )


@given(rows=tables())
@settings(max_examples=30)
def test_slices_of_a_track_nest_deepest_where_they_lie_within_others(tmp_path_factory, rows):
    rows = {"span": [row for row in rows["span"] if row["dur"]]}
    _, found = exported(tmp_path_factory.mktemp("t"), rows)
    for piece in found.slices:
        others = [s for s in found.slices if s.track == piece.track and s is not piece]
        around = [s for s in others if s.ts <= piece.ts and piece.ts + piece.dur <= s.ts + s.dur]
        same = [s for s in around if (s.ts, s.dur) == (piece.ts, piece.dur)]
        assert len(around) - len(same) <= piece.depth <= len(around)


@given(rows=tables())
@settings(max_examples=30)
def test_flows_lead_from_calls_to_their_kernels_within_a_process(tmp_path_factory, rows):
    _, found = exported(tmp_path_factory.mktemp("t"), rows)
    pairs = {}
    for piece in found.slices:
        for flow in piece.flows:
            pairs.setdefault(flow, []).append(piece)
    assert len(pairs) == len(rows["kernel"])
    for call, kernel in pairs.values():
        assert (call.category, kernel.category) == ("cuda_runtime", "kernel")
        assert call.arguments["correlation"] == kernel.arguments["correlation"]
        assert found.process(call.track) == found.process(kernel.track)


@given(rows=tables(names=st.text("abc", min_size=1)))
@settings(max_examples=15)
def test_import_gives_back_spans_calls_and_kernels(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("t")
    if not any(rows.values()):
        return
    api.export(trace_of(folder / "t", rows), "perfetto", folder / "out")
    back = pasta.open(folder / "out")
    for table in ("span", "call", "kernel"):
        columns = ("pid", "name", "ts", "dur")
        found = back.scan(table).select(columns).collect().rows() if back.has(table) else []
        assert sorted(found, key=repr) == intervals(rows, table, *columns)


def test_processes_threads_and_counters_are_named(tmp_path):
    memory = {"pid": 7, "device": 0, "space": "device", "address": 64, "bytes": 512}
    metric = {"pid": 7, "device": 0, "ts": BASE + 5, "name": "power", "unit": "W"}
    rows = {
        "process": [{"pid": 7, "command": "train <b>"}],
        "thread": [{"pid": 7, "tid": 8, "name": "main"}],
        "span": [{"pid": 7, "tid": 8, "ts": BASE, "dur": 9, "name": "f", "level": "step",
                  "span_id": 1, "parent_id": 0, "external_id": 3, "input_shapes": ["2x3", "", "4;5"]}],
        "memory": [
            {**memory, "ts": BASE + 1, "event": "allocate"},
            {**memory, "ts": BASE + 2, "event": "allocate", "address": 4096, "bytes": 100},
            {**memory, "ts": BASE + 3, "event": "release"},
            {**memory, "ts": BASE + 4, "event": "release", "address": 1},
        ],
        "metric": [{**metric, "value": 2.5}, {**metric, "value": float("nan")}],
    }  # fmt: skip
    counted, found = exported(tmp_path, rows)
    (piece,) = found.slices
    assert (found.process(piece.track), found.name(piece.track)) == ("train <b>", "main")
    assert (piece.category, piece.arguments) == (
        "step",
        {"external_id": 3, "shapes": "2x3; -; 4;5"},
    )
    assert [(found.name(track), ts - BASE, value) for track, ts, value in found.counters] == [
        ("GPU 0 live bytes (device)", 1, 512),
        ("GPU 0 live bytes (device)", 2, 612),
        ("GPU 0 live bytes (device)", 3, 100),
        ("GPU 0 power", 5, 2.5),
    ]
    assert sorted(counted.losses.values()) == [1, 1]
    assert counted.rows == {"span": 1, "memory": 3, "metric": 1}


def test_ranks_with_one_pid_are_processes_of_their_own(tmp_path):
    span = {"pid": 7, "tid": 7, "ts": BASE, "dur": 5, "name": "f", "level": "step", "span_id": 1}
    rows = {"span": [{**span, "rank": rank} for rank in (0, 1)]}
    _, found = exported(tmp_path, rows)
    first, second = (found.tracks[piece.track] for piece in found.slices)
    assert first[5] != second[5]
    assert [piece.depth for piece in found.slices] == [0, 0]
