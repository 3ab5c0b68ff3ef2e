"""Exports, read back by other code or by the importers."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import polars as pl
import pytest
from click.testing import CliRunner

import pasta
from pasta import api
from pasta.cli_trace import trace as command
from pasta.collect.containers.protobuf_fields import fields
from pasta.errors import PastaError

BASE = 1_700_000_000_000_000_123
HOST = {"rank": 0, "pid": 7, "tid": 8}
WORK = {"rank": 0, "pid": 7, "device": 0, "context": 1, "stream": 3}
GRID = {f"{a}_{x}": n for a in ("grid", "block") for n, x in enumerate("xyz", 1)}


@pytest.fixture
def small(make_trace):
    memory = {"rank": 0, "pid": 7, "tid": 8, "device": 0, "space": "device", "address": 64}
    return make_trace(
        process=[{"rank": 0, "pid": 7, "command": "train", "host": "h"}],
        thread=[{**HOST, "name": "main"}],
        span=[
            {**HOST, "ts": BASE, "dur": 100, "span_id": 1, "parent_id": 0, "level": "operator",
             "name": "outer", "external_id": 5, "input_shapes": ["2x3", ""]},
            {**HOST, "ts": BASE + 10, "dur": 30, "span_id": 2, "parent_id": 1, "level": "operator",
             "name": "inner;a", "external_id": 6},
            {**HOST, "ts": BASE + 40, "dur": 60, "span_id": 3, "parent_id": 1, "level": "operator",
             "name": "next", "external_id": 0},
        ],
        call=[{**HOST, "ts": BASE + 10, "dur": 9, "correlation": 4, "external_id": 6, "name": "cudaLaunchKernel"}],
        kernel=[
            {**WORK, "ts": BASE + 30, "dur": 51, "correlation": 4, "external_id": 6, "launch_id": 1, "name": "k1", **GRID},
            {**WORK, "ts": BASE + 60, "dur": 41, "correlation": 4, "external_id": 6, "launch_id": 2, "name": "k2", **GRID},
        ],
        memory=[
            {**memory, "ts": BASE + 1, "event": "allocate", "bytes": 512},
            {**memory, "ts": BASE + 2, "event": "release", "bytes": 512},
            {**memory, "ts": BASE + 3, "event": "release", "bytes": 512},
        ],
    )  # fmt: skip


def times(trace, table, base=0):
    rows = trace.scan(table).select("name", "ts", "dur").sort("ts", "name").collect()
    return [(name, ts - base, dur) for name, ts, dur in rows.rows()]


@pytest.mark.parametrize("form", ["perfetto", "chrome"])
def test_import_gives_back_what_was_exported(small, tmp_path, form):
    exported = api.export(small, form, tmp_path / "out")
    assert exported.rows == {"span": 3, "call": 1, "kernel": 2, "memory": 2}
    assert exported.losses.total() == 1
    back = pasta.open(tmp_path / "out")
    for table in ("span", "call", "kernel"):
        assert times(back, table) == times(small, table)
    kernels = back.scan("kernel").select("device", "stream", "correlation").collect()
    assert kernels.rows() == [(0, 3, 4)] * 2


def test_perfetto_counts_live_bytes_and_links_calls_to_kernels(small, tmp_path):
    exported = api.export(small, "perfetto", tmp_path / "out")
    assert [*exported.losses.values()] == [1]
    flows, counters = [], []
    for _, _, packet in fields((tmp_path / "out").read_bytes()):
        for number, _, event in fields(packet):
            if number == 11:
                found = [(n, v) for n, _, v in fields(event)]
                flows += [value for n, value in found if n == 47]
                counters += [value for n, value in found if n == 30]
    assert flows == [4, 4, 4]
    assert counters == [512, 0]


def spans_of(request):
    return [s for r in request["resourceSpans"] for p in r["scopeSpans"] for s in p["spans"]]


def test_otlp_parents_and_stable_ids(small, tmp_path):
    for name in ("a", "b"):
        api.export(small, "otlp", tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    spans = {span["name"]: span for span in spans_of(json.loads((tmp_path / "a").read_text()))}
    parents = {n: s.get("parentSpanId") for n, s in spans.items()}
    ids = {name: span["spanId"] for name, span in spans.items()}
    assert parents == {
        "outer": None,
        "inner;a": ids["outer"],
        "next": ids["outer"],
        "cudaLaunchKernel": ids["inner;a"],
        "k1": ids["cudaLaunchKernel"],
        "k2": ids["cudaLaunchKernel"],
    }
    assert spans["k1"]["startTimeUnixNano"] == str(BASE + 30)


def test_otlp_to_a_collector(small):
    bodies = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            bodies.append(json.loads(body))
            self.send_response(200 if self.path == "/v1/traces" else 404)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        api.export(small, "otlp", f"{address}/v1/traces")
        assert len(spans_of(bodies[0])) == 6
        with pytest.raises(PastaError, match="answered 404"):
            api.export(small, "otlp", f"{address}/other")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    with pytest.raises(PastaError, match="cannot be reached"):
        api.export(small, "otlp", f"{address}/v1/traces")


def test_folded_is_self_time(small, tmp_path):
    api.export(small, "folded", tmp_path / "out")
    lines = (tmp_path / "out").read_text().splitlines()
    assert lines == ["outer 10", "outer;inner:a 30", "outer;next 60"]


def test_speedscope_nests(small, tmp_path):
    api.export(small, "speedscope", tmp_path / "out")
    document = json.loads((tmp_path / "out").read_text())
    names = [frame["name"] for frame in document["shared"]["frames"]]
    (profile,) = document["profiles"]
    events = [(e["type"], names[e["frame"]], e["at"]) for e in profile["events"]]
    assert events == [
        ("O", "outer", 0), ("O", "inner;a", 10), ("C", "inner;a", 40), ("O", "next", 40),
        ("C", "next", 100), ("C", "outer", 100),
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["folded", "speedscope"])
def test_spans_without_a_duration_are_left_out_and_counted(make_trace, tmp_path, form):
    span = {**HOST, "span_id": 1, "parent_id": 0, "level": "operator", "name": "f"}
    trace = make_trace(span=[{**span, "ts": BASE, "dur": 5}, {**span, "ts": BASE + 9, "dur": None}])
    exported = api.export(trace, form, tmp_path / "out")
    assert exported.rows["span"] == 1
    assert exported.losses == {"rows without a duration: left out": 1}


def test_tables(small, tmp_path):
    api.export(small, "csv", tmp_path / "c")
    api.export(small, "arrow", tmp_path / "a")
    assert pl.read_csv(tmp_path / "c" / "span.csv")["ts"].to_list() == [BASE, BASE + 10, BASE + 40]
    arrow = pl.read_ipc(tmp_path / "a" / "span.arrow", memory_map=False)
    assert arrow["input_shapes"][0].to_list() == ["2x3", ""]
    with pytest.raises(PastaError, match="there already"):
        api.export(small, "csv", tmp_path / "c")


def test_items_of_lists_keep_their_places_in_csv(make_trace, tmp_path):
    span = {**HOST, "span_id": 1, "parent_id": 0, "level": "operator", "name": "f", "dur": 5}
    lists = [["f32", None, "i64"], ["a;b", "c"], [], None]
    trace = make_trace(span=[{**span, "ts": BASE, "input_types": types} for types in lists])
    exported = api.export(trace, "csv", tmp_path / "c")
    written = pl.read_csv(tmp_path / "c" / "span.csv")
    assert written["input_types"].to_list() == ["f32;;i64", "a;b;c", "", None]
    assert exported.losses == {
        "items of lists with `;` in them: written as several": 1,
        "unknown items of lists: written as empty texts": 1,
    }


def test_lists_that_csv_does_not_tell_apart_are_counted(make_trace, tmp_path):
    span = {**HOST, "span_id": 1, "parent_id": 0, "level": "operator", "name": "f", "dur": 5}
    lists = [[], [""], [None], ["", ""], ["f32"]]
    trace = make_trace(span=[{**span, "ts": BASE, "input_types": types} for types in lists])
    exported = api.export(trace, "csv", tmp_path / "c")
    written = pl.read_csv(tmp_path / "c" / "span.csv")
    assert written["input_types"].to_list() == ["", "", "", ";", "f32"]
    assert exported.losses == {
        "unknown items of lists: written as empty texts": 1,
        "lists of one item, empty or unknown: written as lists of none": 2,
    }


def test_command_prints_losses_and_names_formats(small, tmp_path):
    path = str(getattr(small, "path", small))
    result = CliRunner().invoke(
        command, ["export", path, "--to", "chrome", "-o", str(tmp_path / "x")]
    )
    assert "1 releases of memory whose allocation is not in the trace: left out" in result.output
    with pytest.raises(PastaError, match="perfetto"):
        api.export(small, "perfeto", tmp_path / "y")
