"""Chrome's JSON, as text and read back by the importer of PyTorch's profiler."""

from __future__ import annotations

import json
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

import pasta
from pasta import api
from tests.exports.hostile import BASE, DURATIONS, intervals, tables, trace_of

CATEGORIES = {"cpu_op": "span", "cuda_runtime": "call", "kernel": "kernel"}


def nanoseconds(event, member):
    return int(event[member] * 1000) if member in event else None


@given(rows=tables(durations=DURATIONS | st.none()))
@settings(max_examples=60)
def test_every_interval_is_an_event_of_its_name_and_exact_time(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("t")
    api.export(trace_of(folder / "t", rows), "chrome", folder / "out")
    document = json.loads((folder / "out").read_bytes(), parse_float=Decimal)
    found = {table: [] for table in CATEGORIES.values()}
    times = []
    for event in document["traceEvents"]:
        if event["ph"] in "XB":
            dur = nanoseconds(event, "dur")
            assert (event["ph"] == "B") == (dur is None)
            times.append(nanoseconds(event, "ts"))
            found[CATEGORIES[event["cat"]]].append((event["name"], times[-1], dur))
    for table, events in found.items():
        assert sorted(events, key=repr) == intervals(rows, table, "name", "ts", "dur")
    assert times == sorted(times)


@given(rows=tables())
@settings(max_examples=30)
def test_arrows_begin_at_calls_and_end_at_kernels(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("t")
    api.export(trace_of(folder / "t", rows), "chrome", folder / "out")
    events = json.loads((folder / "out").read_bytes(), parse_float=Decimal)["traceEvents"]
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert len(starts) == len(rows["kernel"])
    launched = {(row["pid"], row["correlation"]): row["ts"] for row in rows["call"]}
    assert sorted(nanoseconds(e, "ts") for e in starts.values()) == sorted(launched.values())
    for end in ends.values():
        assert any(
            e["ph"] == "X" and e["cat"] == "kernel"
            and (e["pid"], e["tid"], e["ts"]) == (end["pid"], end["tid"], end["ts"])
            for e in events
        )  # fmt: skip


@given(rows=tables(names=st.text("abc", min_size=1)))
@settings(max_examples=15)
def test_import_gives_back_spans_calls_and_kernels(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("t")
    if not rows["kernel"]:
        return
    api.export(trace_of(folder / "t", rows), "chrome", folder / "out.json")
    back = pasta.open(folder / "out.json")
    for table in ("span", "call", "kernel"):
        columns = ("name", "ts", "dur")
        found = back.scan(table).select(columns).collect().rows() if back.has(table) else []
        assert sorted(found, key=repr) == intervals(rows, table, *columns)


def test_arguments_are_those_of_the_profiler(tmp_path):
    rows = {
        "span": [{"tid": 8, "ts": BASE, "dur": 9, "name": "aten::add", "level": "operator",
                  "span_id": 1, "external_id": 3, "input_shapes": ["2x3", "", "4;5x6"]}],
        "kernel": [{"device": 0, "context": 1, "stream": 3, "ts": BASE, "dur": 1, "name": "k",
                    "correlation": 4, "external_id": 3, "grid_x": 1, "grid_y": 2, "grid_z": 3}],
        "copy": [{"device": 0, "context": 1, "stream": 3, "ts": BASE + 1, "dur": 1, "kind": kind,
                  "correlation": 5, "bytes": 64} for kind in ("HtoD", "memset")],
    }  # fmt: skip
    api.export(trace_of(tmp_path / "t", rows), "chrome", tmp_path / "out")
    events = json.loads((tmp_path / "out").read_bytes())["traceEvents"]
    slices = {event["name"]: event for event in events if event["ph"] == "X"}
    assert slices["aten::add"]["args"] == {
        "External id": 3,
        "Input Dims": [[2, 3], [], [[4], [5, 6]]],
    }
    device = {"device": 0, "context": 1, "stream": 3}
    assert slices["k"]["args"] == {"correlation": 4, "External id": 3, **device, "grid": [1, 2, 3]}
    assert slices["Memcpy HtoD"]["args"] == {"correlation": 5, "bytes": 64, **device}
    assert slices["Memset (Device)"]["cat"] == "gpu_memset"
