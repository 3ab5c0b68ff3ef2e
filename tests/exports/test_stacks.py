"""Speedscope's documents and collapsed stacks, read by their rules and by the importers."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

import pasta
from pasta import api
from tests.exports.hostile import BASE, intervals, tables, trace_of


def spans_of(document):
    """Return name, start and duration of every frame, failing where speedscope would."""
    names = [frame["name"] for frame in document["shared"]["frames"]]
    found = []
    for profile in document["profiles"]:
        stack, now = [], profile["startValue"]
        for event in profile["events"]:
            assert now <= event["at"] <= profile["endValue"] < 1 << 53
            now = event["at"]
            if event["type"] == "O":
                stack.append((event["frame"], now))
            else:
                frame, began = stack.pop()
                assert frame == event["frame"]
                found.append((names[frame], began, now - began))
        assert not stack
    return found


@given(rows=tables())
@settings(max_examples=50)
def test_speedscope_holds_every_span(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("t")
    if not rows["span"]:
        return
    trace = trace_of(folder / "t", {"span": rows["span"]})
    api.export(trace, "speedscope", folder / "out")
    found = spans_of(json.loads((folder / "out").read_bytes()))
    first = min(row["ts"] for row in rows["span"])
    shifted = sorted(
        ((row["name"] or "unknown", row["ts"] - first, row["dur"]) for row in rows["span"]),
        key=repr,
    )
    assert sorted(found, key=repr) == shifted


@given(rows=tables(names=st.text("abc", min_size=1)))
@settings(max_examples=15)
def test_import_of_speedscope_gives_back_spans_of_threads(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("t")
    if not rows["span"]:
        return
    api.export(trace_of(folder / "t", {"span": rows["span"]}), "speedscope", folder / "out.json")
    back = pasta.open(folder / "out.json").scan("span").select("pid", "tid", "name", "ts", "dur")
    first = min(row["ts"] for row in rows["span"])
    moved = {"span": [{**row, "ts": row["ts"] - first} for row in rows["span"]]}
    assert sorted(back.collect().rows(), key=repr) == intervals(
        moved, "span", "pid", "tid", "name", "ts", "dur"
    )


def test_own_times_of_spans_add_up_and_come_back(make_trace, tmp_path):
    span = {"tid": 8, "level": "operator", "parent_id": 0}
    trace = make_trace(
        span=[
            {**span, "span_id": 1, "ts": BASE, "dur": 100, "name": "a"},
            {**span, "span_id": 2, "ts": BASE + 10, "dur": 30, "name": "b"},
            {**span, "span_id": 3, "ts": BASE + 90, "dur": 30, "name": "b"},
            {**span, "span_id": 4, "ts": BASE + 200, "dur": 7, "name": "b"},
        ]
    )
    api.export(trace, "folded", tmp_path / "out.folded")
    assert (tmp_path / "out.folded").read_text() == "a 60\na;b 40\nb 7\n"
    back = pasta.open(tmp_path / "out.folded")
    assert sorted(back.scan("sample").collect()["weight"]) == [7, 40, 60]


def test_samples_of_threads(make_trace, tmp_path):
    frames = [
        {"pid": 7, "stack_id": 1, "depth": 0, "function": "main"},
        {"pid": 7, "stack_id": 1, "depth": 1, "function": 'f"'},
        {"pid": 7, "stack_id": 2, "depth": 0, "function": "main"},
    ]
    samples = [
        {"pid": 7, "tid": tid, "stack_id": stack, "weight": weight}
        for tid, stack, weight in [(8, 1, 2.0), (9, 2, None), (8, 5, 3.0), (8, 2, 1.5)]
    ]
    trace = make_trace(frame=frames, sample=samples, thread=[{"pid": 7, "tid": 8, "name": "main"}])
    exported = api.export(trace, "speedscope", tmp_path / "out.json")
    assert exported.losses == {"samples without a known stack: written as `unknown`": 1}
    document = json.loads((tmp_path / "out.json").read_bytes())
    names = [frame["name"] for frame in document["shared"]["frames"]]
    first, second = document["profiles"]
    assert [[names[frame] for frame in s] for s in first["samples"]] == [
        ["main", 'f"'], ["unknown"], ["main"],
    ]  # fmt: skip
    assert (first["weights"], first["endValue"]) == ([2.0, 3.0, 1.5], 6.5)
    assert (second["name"], second["weights"]) == ('Process 7 Thread 9 "rank 0, samples"', [1.0])
    api.export(trace, "folded", tmp_path / "out.folded")
    assert (tmp_path / "out.folded").read_text() == 'main 2\nmain;f" 2\nunknown 3\n'
