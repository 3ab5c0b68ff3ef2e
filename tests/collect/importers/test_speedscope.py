"""speedscope files: a recording of py-spy by this project, and documents by hand."""

from __future__ import annotations

import gzip
import json
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pasta.collect.containers import json_documents
from pasta.collect.importers.speedscope import document as documents
from pasta.errors import InputError
from tests.collect.importers.import_help import imported_content, losses, rows

RECORDED = Path(__file__).parent / "recorded" / "py_spy.speedscope.json"
SCHEMA = "https://www.speedscope.app/file-format-schema.json"
FRAMES = [{"name": "main", "file": "x.py", "line": 3}, {"name": "f"}, {"name": "g"}]


def document(*profiles, frames=FRAMES):
    return {"$schema": SCHEMA, "shared": {"frames": frames}, "profiles": list(profiles)}


def sampled(samples, weights, unit="seconds", start=0, name="p"):
    return {
        "type": "sampled",
        "name": name,
        "unit": unit,
        "startValue": start,
        "endValue": 0,
        "samples": samples,
        "weights": weights,
    }


def evented(events, unit="nanoseconds", name="p"):
    opened = [{"type": kind, "frame": frame, "at": at} for kind, frame, at in events]
    return {"type": "evented", "name": name, "unit": unit, "startValue": 0, "events": opened}


@pytest.fixture
def imported(tmp_path):
    def run(content, *, strict=False):
        text = content if isinstance(content, bytes | str) else json.dumps(content)
        return imported_content(text, tmp_path, strict=strict)

    return run


@pytest.mark.parametrize(
    ("unit", "factor"),
    [("nanoseconds", 1), ("microseconds", 10**3), ("milliseconds", 10**6), ("seconds", 10**9)],
)
def test_samples_in_time(imported, unit, factor):
    report, trace = imported(document(sampled([[0], [0, 1], [0, 1]], [2, 3, 4], unit, 5)))
    assert rows(trace, "sample", "ts", "dur", "kind", "weight") == [
        (5 * factor, None, "on_cpu", 2.0 * factor),
        (7 * factor, None, "on_cpu", 3.0 * factor),
        (10 * factor, None, "on_cpu", 4.0 * factor),
    ]
    assert rows(trace, "frame", "depth", "function", "file", "line", "language") == [
        (0, "main", "x.py", 3, "python"),
        (0, "main", "x.py", 3, "python"),
        (1, "f", "", 0, ""),
    ]
    assert (report.first_ts, report.last_ts) == (5 * factor, 14 * factor)
    assert report.losses == []


def test_times_beyond_what_a_float_holds(imported):
    text = json.dumps(document(sampled([[0], [1]], ["W", 1], start="S")))
    text = text.replace('"S"', "1672924881.307000123").replace('"W"', "0.000000001")
    _, trace = imported(text)
    assert rows(trace, "sample", "ts") == [(1672924881307000123,), (1672924881307000124,)]


@pytest.mark.parametrize(("unit", "kind"), [("none", "samples"), ("bytes", "bytes")])
def test_samples_of_no_time_have_none(imported, unit, kind):
    _, trace = imported(document(sampled([[0], [0, 2]], [1.5, 2], unit)))
    assert rows(trace, "sample", "ts", "kind", "weight") == [(None, kind, 1.5), (None, kind, 2.0)]


def test_events_are_spans_that_nest(imported):
    events = [("O", 0, 10), ("O", 1, 10), ("C", 1, 10), ("O", 1, 12), ("C", 1, 30), ("C", 0, 30)]
    report, trace = imported(document(evented(events, name='Process 3 Thread 4 "Main"')))
    spans = trace.scan("span").sort("span_id")
    columns = ("pid", "tid", "ts", "dur", "span_id", "parent_id", "level", "name")
    assert spans.select(columns).collect().rows() == [
        (3, 4, 10, 20, 1, 0, "function", "main"),
        (3, 4, 10, 0, 2, 1, "function", "f"),
        (3, 4, 12, 18, 3, 1, "function", "f"),
    ]
    assert rows(trace, "thread", "pid", "tid", "name") == [(3, 4, "Main")]
    assert trace.scan("frame").group_by("stack_id").len().select("len").collect().to_series().sort().to_list() == [1, 2]  # fmt: skip
    assert report.losses == []


def test_what_began_first_is_the_parent_of_its_like(imported):
    events = [("O", 0, 10), ("O", 1, 10), ("O", 2, 10), ("C", 2, 20), ("C", 1, 20), ("C", 0, 20)]
    _, trace = imported(document(evented(events)))
    names = dict(rows(trace, "span", "span_id", "name"))
    assert {
        name: names.get(parent) for name, parent in rows(trace, "span", "name", "parent_id")
    } == {
        "main": None,
        "f": "main",
        "g": "f",
    }


def test_damaged_profiles_keep_what_is_sound(imported):
    report, trace = imported(
        document(
            sampled([[0], [9], [1], [1], [2]], [1, 1, None, -1], "nanoseconds"),
            evented([("C", 1, 1), ("O", 0, 5), ("O", 1, 6), ("C", 1, 3), ("O", 9, 3)]),
            {"type": "odd"},
            evented([("O", 0, 1), ("C", 0, 2)], "bytes"),
            {**sampled([], []), "samples": [["x"]], "weights": 3},
        )
    )
    assert rows(trace, "sample", "ts", "weight") == [(0, 1.0)]
    assert rows(trace, "span", "name", "ts", "dur") == [("main", 5, None), ("f", 6, None)]
    assert losses(report) == {
        "sample without frames or a weight: left out": 4,
        "end without a begin: left out": 1,
        "event with a negative duration: kept as unfinished": 1,
        "event without a time or a known frame: left out": 1,
        "begin without an end: kept as unfinished": 1,
        "profile of no known type: left out": 1,
        "evented profile in 'bytes', not in time: left out": 1,
        "samples or events of another form than speedscope's: left out, with all that follow": 2,
    }


def test_the_recording(imported):
    report, trace = imported(RECORDED.read_bytes())
    content = json.loads(RECORDED.read_text())
    [profile] = content["profiles"]
    weights = [Fraction(str(weight)) * 10**9 for weight in profile["weights"]]
    starts = [sum(weights[:at]) for at in range(len(weights))]
    assert rows(trace, "sample", "tid", "ts", "weight") == [
        (734, int(start), float(weight)) for start, weight in zip(starts, weights, strict=True)
    ]
    depths = trace.scan("frame").group_by("stack_id").len()
    deep = trace.scan("sample").join(depths, on="stack_id").select(pl.sum("len")).collect().item()
    assert deep == sum(map(len, profile["samples"]))
    assert report.losses == []


@pytest.mark.parametrize("compressed", [False, True])
def test_a_cut_file_keeps_what_stands_before(imported, compressed):
    whole = json.dumps(document(sampled([[0, 1]] * 200, [1] * 200, "nanoseconds"))).encode()
    data = gzip.compress(whole) if compressed else whole
    report, _ = imported(data[: len(data) * 9 // 10])
    kept = report.rows.get("sample", 0)
    lost = losses(report)
    assert lost.pop("sample without frames or a weight: left out") + kept <= 200
    assert (kept > 0) == (not compressed)
    assert "what stands before is kept, all else is left out" in " ".join(lost)
    with pytest.raises(InputError, match="leave out --strict"):
        imported(data[: len(data) * 9 // 10], strict=True)


def test_files_without_frames_or_profiles_are_refused(imported):
    with pytest.raises(InputError, match="names of the frames are missing"):
        imported(document(sampled([[0]], [1]), frames=[]))
    with pytest.raises(InputError, match="without a profile"):
        imported(document())


def test_blocks_of_any_size_give_the_same(imported, monkeypatch):
    content = document(
        sampled([[0], [0, 1], [2]] * 9, list(range(27)), "nanoseconds"),
        evented([e for n in range(20) for e in (("O", n % 3, n), ("C", n % 3, n + 1))]),
    )
    whole = imported(content)[1]
    for size in (1, 7, 40):
        monkeypatch.setattr(documents, "_BLOCK_BYTES", size)
        report, trace = imported(content)
        assert report.losses == []
        for table in ("sample", "span", "frame"):
            assert trace.scan(table).collect().equals(whole.scan(table).collect())


@pytest.mark.parametrize("indent", [None, 2])
def test_lists_on_disk_give_the_same(imported, monkeypatch, indent):
    lists = [
        sampled([[0], [], [0, 1], [2]] * 9, [at / 10 for at in range(36)], "seconds", 0.1),
        evented([e for n in range(20) for e in (("O", n % 3, n), ("C", n % 3, n + 1))]),
        sampled([], []),
        sampled([["x"]], [1], "nanoseconds"),
    ]
    content = document(*lists, frames=[*FRAMES, {"name": 'of "samples": [1]'}])
    shared = content.pop("shared")
    texts = [json.dumps({**content, "shared": shared}, indent=indent), RECORDED.read_text()]
    for text in texts:
        report, whole = imported(text)
        with monkeypatch.context() as patch:
            patch.setattr(json_documents, "SMALL_BYTES_MAX", 0)
            patch.setattr(documents, "_BLOCK_BYTES", 20)
            found, trace = imported(text)
        for table in ("sample", "frame", "process", "thread"):
            assert trace.scan(table).collect().equals(whole.scan(table).collect()), table
        if trace.has("span"):
            assert trace.scan("span").collect().equals(whole.scan("span").collect())
        assert losses(found).keys() == losses(report).keys()


@pytest.mark.parametrize("part", [0.5, 0.8])
def test_a_list_on_disk_that_is_cut(imported, monkeypatch, part):
    monkeypatch.setattr(json_documents, "SMALL_BYTES_MAX", 0)
    content = {"$schema": SCHEMA, "shared": {"frames": FRAMES}}
    content["profiles"] = [sampled([[0, 1]] * 200, [1] * 200, "nanoseconds")]
    del content["profiles"][0]["endValue"]
    text = json.dumps(content)
    weights = text.index("weights")
    cut = text[: int(weights + (len(text) - weights) * part)]
    report, _ = imported(cut)
    assert report.rows["sample"] == cut[weights:].count("1,")
    assert "what stands before is kept, all else is left out" in " ".join(losses(report))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
@pytest.mark.parametrize("whole", [0, 1 << 20])
def test_no_damage_escapes(imported, monkeypatch, whole, data):
    monkeypatch.setattr(json_documents, "SMALL_BYTES_MAX", whole)
    text = bytearray(
        json.dumps(
            document(
                sampled([[0], [0, 1]], [0.5, 1e3]), evented([("O", 0, 1), ("O", 1, 2), ("C", 1, 3)])
            )
        ).encode()
    )
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(text)))
        odd = st.sampled_from([b"null", b"-1", b"1e99999", b"[", b"}", b"\xff", b'"', b"9" * 30])
        text[at : at + data.draw(st.integers(0, 9))] = data.draw(odd)
    try:
        _, trace = imported(bytes(text))
    except InputError:
        return
    for table in ("span", "sample"):
        if trace.has(table):
            assert trace.scan(table).filter(pl.col("dur") < 0).collect().is_empty()
