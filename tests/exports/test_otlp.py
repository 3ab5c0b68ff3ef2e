"""OTLP/JSON by the rules of its specification: ids in hexadecimal, times as decimal text."""

from __future__ import annotations

import json
import re

from hypothesis import given, settings

from pasta import api
from tests.exports.hostile import DURATIONS, tables, trace_of


def spans_of(path):
    requests = [json.loads(line) for line in path.read_bytes().splitlines()]
    resources = [resource for request in requests for resource in request["resourceSpans"]]
    return [s for r in resources for p in r["scopeSpans"] for s in p["spans"]]


def attribute(span, key):
    (value,) = [a["value"] for a in span["attributes"] if a["key"] == key]
    return next(iter(value.values()))


@given(rows=tables(durations=DURATIONS))
@settings(max_examples=40)
def test_spans_have_ids_of_their_own_and_parents_that_are_there(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("t")
    api.export(trace_of(folder / "t", rows), "otlp", folder / "out")
    spans = spans_of(folder / "out")
    assert len(spans) == sum(map(len, rows.values()))
    by_id = {(span["traceId"], span["spanId"]): span for span in spans}
    assert len(by_id) == len(spans)
    for span in spans:
        assert re.fullmatch("[0-9a-f]{32}", span["traceId"])
        assert re.fullmatch("[0-9a-f]{16}", span["spanId"])
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
        parent = by_id.get((span["traceId"], span.get("parentSpanId")))
        if attribute(span, "pasta.table") == "kernel":
            assert attribute(parent, "correlation") == attribute(span, "correlation")
        elif parent:
            assert attribute(parent, "pasta.table") == "span"
            assert int(parent["startTimeUnixNano"]) <= int(span["startTimeUnixNano"])
            assert int(span["startTimeUnixNano"]) < int(parent["endTimeUnixNano"])


def test_attributes_are_strings_and_decimal_integers(tmp_path):
    rows = {"span": [{"tid": 8, "ts": 5, "dur": 1, "name": '"', "level": "step", "span_id": 1}]}
    api.export(trace_of(tmp_path / "t", rows), "otlp", tmp_path / "out")
    (span,) = spans_of(tmp_path / "out")
    assert span["name"] == '"'
    assert span["attributes"] == [
        {"key": "pasta.table", "value": {"stringValue": "span"}},
        {"key": "level", "value": {"stringValue": "step"}},
        {"key": "tid", "value": {"intValue": "8"}},
    ]
