"""Memory timelines of the profiler: events, moments, the picture, and damage."""

from __future__ import annotations

import contextlib
import gzip
import json
from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pasta
from pasta.collect.importers.torch_memory_timeline import BEFORE, NAMELESS, NET
from pasta.collect.importing import import_trace
from pasta.errors import InputError
from pasta.trace import Trace
from tests.collect.importers.import_help import rows

NS = 1_696_966_047_000_000_123
EVENTS = [
    [-1, 1, 100, 0],
    [-1, 1, 30, 7],
    [NS, 2, 50, 4],
    [NS + 5, 3, -50, 4],
    [NS + 5, 3, 50, 6],
    [NS + 9, 4, -30, 7],
]


@pytest.fixture
def imported(tmp_path):
    def run(content, *, strict=False):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        file = tmp_path / "timeline.json"
        file.write_bytes(data)
        out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        report = import_trace([file], out, strict=strict)
        return Trace.open(out), {reason: count for _, reason, count, _ in report.losses}

    return run


def test_events_by_hand(imported):
    trace, losses = imported(EVENTS)
    assert rows(trace, "memory", "ts", "event", "bytes", "total_allocated", "space", "device") == [
        (NS - 1, "allocate", 100, 100, "tensor", 0),
        (NS - 1, "allocate", 30, 130, "tensor", 0),
        (NS, "allocate", 50, 180, "tensor", 0),
        (NS + 9, "release", 30, 150, "tensor", 0),
    ]
    assert sorted(rows(trace, "metric", "ts", "name", "value", "unit")) == [
        (NS - 1, "memory/PARAMETER", 100.0, "bytes"),
        (NS - 1, "memory/UNKNOWN", 30.0, "bytes"),
        (NS, "memory/ACTIVATION", 50.0, "bytes"),
        (NS + 5, "memory/ACTIVATION", 0.0, "bytes"),
        (NS + 5, "memory/AUTOGRAD_DETAIL", 50.0, "bytes"),
        (NS + 9, "memory/UNKNOWN", 0.0, "bytes"),
    ]
    assert losses == {BEFORE: 2, NAMELESS: 4}
    assert rows(trace, "process", "started", "ended") == [(NS - 1, NS + 9)]


def test_moments_by_hand(imported):
    us = NS // 1000
    sizes = [
        [0, 100, 0, 0, 0, 0, 0, 0, 30],
        [0, 100, 0, 0, 0, 50, 0, 0, 30],
        [0, 100, 0, 0, 0, 0, 0, 50, 30],
        [0, 100, 0, 0, 0, 0, 0, 50, 0],
    ]
    trace, losses = imported([[us, us, us + 1, us + 2], sizes])
    begin = us * 1000
    assert rows(trace, "memory", "ts", "event", "bytes", "total_allocated") == [
        (begin, "allocate", 130, 130),
        (begin, "allocate", 50, 180),
        (begin + 2000, "release", 30, 150),
    ]
    assert sorted(rows(trace, "metric", "ts", "name", "value")) == [
        (begin, "memory/ACTIVATION", 50.0),
        (begin, "memory/PARAMETER", 100.0),
        (begin, "memory/UNKNOWN", 30.0),
        (begin + 1000, "memory/ACTIVATION", 0.0),
        (begin + 1000, "memory/AUTOGRAD_DETAIL", 50.0),
        (begin + 2000, "memory/UNKNOWN", 0.0),
    ]
    assert losses == {NET: 3, NAMELESS: 3}


def test_the_picture_is_told_what_to_do(imported):
    page = b"<html>\n<head><title>GPU Memory Timeline HTML</title></head><body></body></html>"
    with pytest.raises(InputError, match="is the picture of a memory timeline; export its numbers"):
        imported(page)


def test_other_json_is_not_taken(imported):
    for content in ([[1, 2, 3]], [[NS, 5, 6, 7]], [1, 2]):
        with contextlib.suppress(InputError):
            trace, _ = imported(content)
            assert "memory" not in trace.tables()


def test_dirty_events_are_counted(imported):
    dirty = [
        *EVENTS[2:4],
        [NS, 9, 1, 1],
        [NS, 2, 1, 99],
        [1 << 70, 2, 1, 1],
        [NS, 2],
        [NS - 7, 2, 1, 0],
    ]
    text = json.dumps(dirty)[:-1].encode() + b', [1.5, 2, "x", 0], rubbish]'
    trace, losses = imported(text)
    assert rows(trace, "memory", "ts", "bytes") == [(NS, 50), (NS + 5, 1)]
    assert {reason.split(":")[0]: count for reason, count in losses.items()} == {
        "event of anything but a time, an action, a size and a category": 4,
        "event that is earlier than the one before it": 1,
        "array of anything but whole numbers": 1,
        "bytes outside of arrays of numbers": 7,
        "allocation or release without an address": 2,
    }
    with pytest.raises(InputError, match="left out"):
        imported(text, strict=True)


def test_totals_of_more_releases_than_allocations_are_unknown(imported):
    trace, _ = imported([[NS, 4, -30, 0], [NS + 1, 2, 50, 0], [NS + 2, 2, 1 << 61, 0]])
    assert rows(trace, "memory", "event", "bytes", "total_allocated") == [
        ("release", 30, None),
        ("allocate", 50, 20),
        ("allocate", 1 << 61, (1 << 61) + 20),
    ]


def test_only_preexisting_memory(imported):
    trace, _ = imported(EVENTS[:2])
    assert rows(trace, "memory", "event", "total_allocated") == [
        ("allocate", 100),
        ("allocate", 130),
    ]


@pytest.fixture(scope="module")
def sample(samples):
    file = samples / "torch_memory" / "hta_memory_timeline.raw.gz"
    return file, json.loads(gzip.decompress(file.read_bytes()))


def test_the_sample_against_a_replay(sample, tmp_path):
    file, events = sample
    report = import_trace([file], tmp_path / "t")
    trace = Trace.open(tmp_path / "t")
    total, peak, sizes = 0, 0, Counter()
    for _, action, size, category in events:
        total += 0 if action == 3 else size
        peak = max(peak, total)
        sizes[category] += size
    memory = trace.scan("memory").collect()
    actions = Counter(action for _, action, _, _ in events)
    assert memory["event"].to_list().count("allocate") == actions[1] + actions[2]
    assert memory["event"].to_list().count("release") == actions[4]
    assert (memory["total_allocated"].max(), memory["total_allocated"][-1]) == (peak, total)
    last = trace.scan("metric").sort("ts").group_by("name").last().collect()
    values = dict(last.select("name", "value").iter_rows())
    assert values["memory/PARAMETER"] == sizes[0]
    assert sum(values.values()) == sum(sizes.values()) == total
    assert report.warnings == []
    timeline = pasta.run("memory_timeline", trace=file)
    assert timeline.tables["peak_by_space"]["peak_bytes"].to_list() == [peak]


def test_a_sample_cut_at_nine_tenths(sample, tmp_path):
    file, _ = sample
    data = gzip.decompress(file.read_bytes())
    cut = tmp_path / "cut.json"
    cut.write_bytes(data[: len(data) * 9 // 10])
    report = import_trace([cut], tmp_path / "t")
    kept = data[: len(data) * 9 // 10].count(b"]")
    assert f"JSON cut at byte {len(data) * 9 // 10}, {kept} arrays kept" in [
        reason for _, reason, _, _ in report.losses
    ]
    rows = Trace.open(tmp_path / "t").scan("memory").select(pl.len()).collect().item()
    assert rows == sum(event[1] != 3 for event in sample[1][:kept])
    with pytest.raises(InputError, match="JSON cut"):
        import_trace([cut], tmp_path / "strict", strict=True)


BASE = json.dumps(EVENTS).encode()


@settings(max_examples=60, deadline=None)
@given(
    edits=st.lists(
        st.tuples(
            st.integers(3, len(BASE)),
            st.sampled_from([b"", b"[", b"]", b"9" * 30, b",", b"-", b"1e9", b"\xff", b"null"]),
            st.integers(0, 9),
        ),
        max_size=4,
    ),
    moments=st.booleans(),
)
def test_only_input_errors_escape(tmp_path_factory, edits, moments):
    data = bytearray(json.dumps([[1, 2, 3], [[0] * 9, [5] * 9]]).encode() if moments else BASE)
    for at, new, removed in edits:
        data[at : at + removed] = new
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "t.json").write_bytes(bytes(data))
    with contextlib.suppress(InputError):
        import_trace([folder / "t.json"], folder / "out")
