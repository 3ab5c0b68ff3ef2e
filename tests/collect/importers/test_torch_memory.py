"""Memory snapshots to rows: by hand, against a plain replay of the entries, and damaged."""

from __future__ import annotations

import contextlib
import gzip
import os
import pickle
from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pasta
from pasta.collect.importers.torch_memory import NO_HISTORY
from pasta.collect.importers.torch_memory.history import BEFORE
from pasta.collect.importers.torch_memory.ranges import Range, Ranges
from pasta.collect.importers.torch_memory.spans import OUT_OF_MEMORY
from pasta.collect.importing import import_trace
from pasta.errors import InputError
from pasta.trace import Trace

US = 1_776_479_641_085_368
NS = US * 1000
FRAMES = [
    {"name": "forward", "filename": "/m/model.py", "line": 54},
    {"name": "main", "filename": "/m/train.py", "line": 9},
]


def entry(action, addr, size, at=0, **more):
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": US + at, **more}


def segment(address, size, *blocks, device=0, **more):
    listed = [
        {"address": at, "size": rounded, "requested_size": asked, "state": state, "frames": []}
        for at, rounded, asked, state in blocks
    ]
    return {
        "device": device,
        "address": address,
        "total_size": size,
        "stream": 0,
        "blocks": listed,
    } | more


def snapshot(*traces, segments=(), **more):
    return {"segments": list(segments), "device_traces": list(map(list, traces)), **more}


@pytest.fixture
def imported(tmp_path):
    def run(content, *, strict=False, name="s.pickle"):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content))
        out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        report = import_trace([file], out, strict=strict)
        return Trace.open(out), {reason: count for _, reason, count, _ in report.losses}

    return run


def memory(trace, *columns, space="tensor"):
    rows = trace.scan("memory").filter(pl.col("space") == space).collect()
    return rows.select(columns).rows()


def test_an_allocation_and_its_release(imported):
    trace, losses = imported(
        snapshot(
            [
                entry("segment_alloc", 4096, 2 << 20, frames=FRAMES),
                entry("alloc", 4096, 1000, 1, frames=FRAMES, pool_id=(0, 0)),
                entry("free_requested", 4096, 1000, 5, frames=FRAMES),
                entry("free_completed", 4096, 1000, 7, frames=FRAMES),
                entry("alloc", 4096, 24, 7),
                entry("snapshot", 0, 0, 9),
            ],
            segments=[segment(4096, 2 << 20, (4096, 512, 24, "active_allocated"))],
        )
    )
    rows = memory(
        trace, "ts", "event", "address", "bytes", "object_id", "total_allocated", "total_reserved"
    )
    assert rows == [
        (NS + 1000, "allocate", 4096, 1000, 1, 1000, 2 << 20),
        (NS + 5000, "release", 4096, 1000, 1, 0, 2 << 20),
        (NS + 7000, "allocate", 4096, 24, 2, 24, 2 << 20),
    ]
    columns = ("ts", "event", "bytes", "total_allocated", "total_reserved")
    assert memory(trace, *columns, space="device") == [(NS, "allocate", 2 << 20, 2 << 20, None)]
    assert losses == {
        "free_completed entry: left out, as free_requested is the release": 1,
        "snapshot entry, which marks that one was taken: left out": 1,
    }
    process = trace.scan("process").collect().row(0, named=True)
    assert (process["started"], process["ended"]) == (NS - 1, NS + 7000)


def test_frames_are_stored_once_outermost_first(imported):
    more = [{"name": "c10::alloc", "filename": "??", "line": 0}, *FRAMES]
    trace, _ = imported(
        snapshot(
            [
                entry("alloc", 1, 1, frames=list(FRAMES)),
                entry("alloc", 2, 1, frames=[dict(frame) for frame in FRAMES]),
                entry("alloc", 3, 1, frames=more),
                entry("alloc", 4, 1, frames=[]),
                entry("alloc", 5, 1),
            ]
        )
    )
    first, second, third, *rest = (row[0] for row in memory(trace, "stack_id"))
    assert first == second != third
    assert 0 not in (first, third)
    assert rest == [0, 0]
    frames = trace.scan("frame").sort("depth").collect()
    assert frames.filter(pl.col("stack_id") == third).select(
        "function", "file", "line", "language"
    ).rows() == [
        ("main", "/m/train.py", 9, "python"),
        ("forward", "/m/model.py", 54, "python"),
        ("c10::alloc", "", 0, "c++"),
    ]
    assert frames.height == 5


def test_what_was_live_before_the_history_makes_totals_right(imported):
    """Before: 300 freed unseen, 500 live throughout; reserved 4096 + 8192, of which 4096 ends."""
    trace, losses = imported(
        snapshot(
            [
                entry("alloc", 10, 40, 2),
                entry("free_requested", 20, 300, 3),
                entry("segment_free", 100_000, 4096, 4),
            ],
            segments=[
                segment(
                    0,
                    8192,
                    (10, 512, 40, "active_allocated"),
                    (522, 512, 500, "active_allocated"),
                    (1034, 512, 0, "inactive"),
                    (1546, 512, 100, "active_awaiting_free"),
                )
            ],
        )
    )
    begin = NS + 2000 - 1
    assert memory(
        trace, "ts", "event", "address", "bytes", "total_allocated", "total_reserved"
    ) == [
        (begin, "allocate", 20, 300, 300, 12288),
        (begin, "allocate", 522, 500, 800, 12288),
        (NS + 2000, "allocate", 10, 40, 840, 12288),
        (NS + 3000, "release", 20, 300, 540, 12288),
    ]
    assert memory(trace, "event", "bytes", "total_allocated", space="device") == [
        ("allocate", 4096, 4096),
        ("allocate", 8192, 12288),
        ("release", 4096, 8192),
    ]
    assert losses == {BEFORE: 4}
    ids = memory(trace, "address", "object_id")
    assert ids[0][1] == ids[3][1]
    assert len(set(ids)) == 3


def test_mapped_segments_are_unmapped_in_parts(imported):
    trace, _ = imported(
        snapshot(
            [
                entry("segment_map", 0, 60),
                entry("segment_map", 60, 20, 1),
                entry("segment_unmap", 20, 50, 2),
                entry("segment_map", 20, 10, 3),
            ],
            segments=[segment(0, 30, is_expandable=True), segment(70, 10, is_expandable=True)],
        )
    )
    totals = memory(trace, "event", "address", "bytes", "total_allocated", space="device")
    assert totals == [
        ("allocate", 0, 60, 60),
        ("allocate", 60, 20, 80),
        ("release", 0, 60, 20),
        ("allocate", 0, 20, 40),
        ("release", 60, 20, 20),
        ("allocate", 70, 10, 30),
        ("allocate", 20, 10, 40),
    ]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30), st.integers(1, 12)), max_size=25))
def test_ranges_against_single_bytes(steps):
    ranges, owner = Ranges(), {}
    for number, (adds, start, size) in enumerate(steps):
        cells = set(range(start, start + size))
        gaps = ranges.gaps(start, start + size)
        assert {at for first, end in gaps for at in range(first, end)} == cells - set(owner)
        if adds and not cells & set(owner):
            ranges.add(Range(start, start + size, number))
            owner |= dict.fromkeys(cells, number)
        elif not adds:
            hit = {owner[at] for at in cells & set(owner)}
            assert {found.object_id for found in ranges.remove(start, start + size)} == hit
            owner = {at: of for at, of in owner.items() if of not in hit}


def test_devices_are_apart(imported):
    trace, _ = imported(
        snapshot(
            [entry("alloc", 10, 100)],
            [],
            [entry("alloc", 10, 7, 5), entry("free_requested", 10, 7, 6)],
            segments=[segment(0, 512, (0, 512, 300, "active_allocated"), device=1)],
        )
    )
    assert memory(trace, "device", "ts", "event", "bytes", "total_allocated", "total_reserved") == [
        (1, NS - 1, "allocate", 300, 300, 512),
        (0, NS, "allocate", 100, 100, 0),
        (2, NS + 5000, "allocate", 7, 7, 0),
        (2, NS + 6000, "release", 7, 0, 0),
    ]
    assert trace.scan("device").collect()["device"].to_list() == [0, 1, 2]
    ids = [row[0] for row in memory(trace, "object_id")]
    assert len(set(ids)) == 3


def test_without_history_the_live_blocks_stand_as_allocations(imported):
    segments = [segment(0, 2048, (0, 512, 400, "active_allocated"), (512, 1536, 0, "inactive"))]
    for content in (snapshot([], segments=segments), {"segments": segments}, segments):
        trace, losses = imported(content)
        assert memory(trace, "ts", "event", "bytes", "total_allocated", "total_reserved") == [
            (0, "allocate", 400, 400, 2048)
        ]
        assert losses == {NO_HISTORY: 1}


def test_blocks_of_before_pytorch_2_1(imported):
    blocks = [
        {
            "size": 512,
            "state": "active_allocated",
            "history": [
                {"addr": 8, "real_size": 300, "frames": FRAMES},
                {"addr": 8, "real_size": 9},
            ],
        },
        {"size": 512, "state": "inactive", "history": [{"addr": 520, "real_size": 30}]},
        {"size": 1024, "state": "active_allocated"},
    ]
    trace, _ = imported(
        [{"device": 0, "address": 8, "total_size": 2048, "stream": 0, "blocks": blocks}]
    )
    rows = memory(trace, "address", "bytes", "stack_id")
    assert [row[:2] for row in rows] == [(8, 300), (1032, 1024)]
    assert rows[0][2] != 0 == rows[1][2]


def test_annotations_and_failures_become_spans(imported):
    def mark(name, stage, at, device=0):
        return {"name": name, "stage": stage, "device": device, "time_us": US + at}

    oom = {
        "action": "oom",
        "device_free": 77,
        "size": 900,
        "stream": 0,
        "time_us": US + 6,
        "frames": FRAMES,
    }
    trace, losses = imported(
        snapshot(
            [entry("alloc", 10, 5, 3), oom],
            external_annotations=[
                mark("lost", "END", 0),
                mark("step", "START", 1),
                mark("forward", "START", 2),
                mark("forward", "START", 3, device=1),
                mark("forward", "END", 5),
                mark("forward", "END", 7),
                mark("step", "END", 8),
                mark("open", "START", 9),
                {"name": "x"},
            ],
        )
    )
    spans = trace.scan("span").sort("ts", "name").collect()
    told = "out of memory on device 0: 900 bytes asked for, 77 bytes free"
    assert spans.select("ts", "dur", "level", "name").rows() == [
        (NS + 1000, 7000, "annotation", "step"),
        (NS + 2000, 3000, "annotation", "forward"),
        (NS + 3000, 4000, "annotation", "forward"),
        (NS + 6000, 0, "annotation", told),
        (NS + 9000, None, "annotation", "open"),
    ]
    ids = dict(spans.filter(pl.col("name") != "forward").select("name", "span_id").iter_rows())
    assert spans["parent_id"][1] == ids["step"]
    assert spans.filter(pl.col("name") == told)["stack_id"][0] != 0
    assert losses[OUT_OF_MEMORY] == 1
    assert losses["end of an annotation that began before the recorded history: left out"] == 1
    assert losses["annotation without a name, a stage or a time: left out"] == 1
    report = pasta.run("memory_timeline", trace=trace.path)
    assert report.tables["largest_holders"]["allocated_in"].to_list() == ["forward"]


def test_dirty_entries_are_counted(imported):
    trace, losses = imported(
        snapshot(
            [
                {"action": "alloc", "addr": 1, "size": 10, "stream": 0},
                entry("alloc", 2, 20, 5),
                entry("alloc", 2, 30, 1),
                entry("alloc", -1, 1, 6),
                entry("alloc", 1 << 64, 1, 6),
                entry("alloc", 3, -1, 6),
                entry("alloc", "3", 1, 6),
                entry("conjure", 3, 1, 6),
                entry(["alloc"], 3, 1, 6),
                "entry",
                entry("alloc", 4, 1, 6, frames=["f", 3], compile_context="0/0", user_metadata="m"),
                entry("free_requested", 4, 1, -(1 << 70)),
            ]
        )
    )
    assert memory(trace, "ts", "event", "address", "bytes", "total_allocated") == [
        (1, "allocate", 1, 10, 10),
        (NS + 5000, "allocate", 2, 20, 30),
        (NS + 5000, "release", 2, 20, 10),
        (NS + 5000, "allocate", 2, 30, 40),
        (NS + 6000, "allocate", (1 << 64) - 1, 1, 41),
        (NS + 6000, "allocate", 4, 1, 42),
        (NS + 6001, "release", 4, 1, 41),
    ]
    assert {reason.split(":")[0]: count for reason, count in losses.items()} == {
        "entry of the history without an action, an address or a size": 5,
        "entry of the history of an unknown action": 1,
        "entry of the history without a time": 2,
        "entry of the history that is earlier than the one before it": 1,
        "allocation at an address that is in use": 1,
        "frame of unknown form": 2,
        "compile_context of an entry": 1,
        "user_metadata of an entry": 1,
    }


def test_halves_of_characters_in_texts_are_replaced(imported):
    frames = [{"name": "f\ud800", "filename": "é\udfff.py", "line": 3}]
    trace, losses = imported(snapshot([entry("alloc", 16, 8, frames=frames)]))
    assert trace.scan("frame").select("function", "file").collect().rows() == [("f?", "é?.py")]
    assert losses == {}


@pytest.mark.parametrize("protocol", range(6))
def test_protocols_and_compression(imported, protocol):
    content = pickle.dumps(
        snapshot([entry("alloc", n, 1, n, frames=FRAMES) for n in range(50)]), protocol
    )
    for data in (content, gzip.compress(content)):
        trace, losses = imported(data)
        assert memory(trace, "address", "total_allocated") == [(n, n + 1) for n in range(50)]
        assert losses == {}


def test_a_pickle_with_a_class_runs_nothing(imported, tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    with pytest.raises(
        InputError, match=r"s\.pickle: holds the class or function '(posix|nt)\.mkdir'"
    ):
        imported(snapshot([entry("alloc", 1, 1), Evil()]))
    assert not (tmp_path / "made").exists()


def test_other_pickles_are_no_snapshots(imported):
    for content in ({"a": 1}, 5, "text", [1, 2, 3], [{}, "x"]):
        with pytest.raises(InputError, match="is a pickle, but no memory snapshot"):
            imported(content)


@pytest.fixture(scope="module")
def recorded(samples):
    file = samples / "torch_memory" / "magma27_memory_snapshot.pickle"
    with file.open("rb") as stream:
        return file, pickle.load(stream)


def replay(content):
    """Peak and end of the bytes that were asked for, by a plain loop backwards from the end."""
    live = sum(
        block["requested_size"]
        for found in content["segments"]
        for block in found["blocks"]
        if block["state"] == "active_allocated"
    )
    totals = [live]
    for event in reversed(content["device_traces"][0]):
        live -= {"alloc": event["size"], "free_requested": -event["size"]}.get(event["action"], 0)
        totals.append(live)
    return max(totals), totals[0], totals[-1]


def test_the_sample_against_a_replay(recorded, tmp_path):
    file, content = recorded
    report = import_trace([file], tmp_path / "t")
    rows = Trace.open(tmp_path / "t").scan("memory").filter(pl.col("space") == "tensor").collect()
    actions = Counter(event["action"] for event in content["device_traces"][0])
    assert sum(actions.values()) == 5163
    peak, end, before = replay(content)
    assert rows["total_allocated"].max() == peak
    assert rows["total_allocated"][-1] == end
    began = rows.filter(pl.col("ts") == rows["ts"].min())
    assert began["total_allocated"][-1] == began["bytes"].sum() == before
    assert rows.height - began.height == actions["alloc"] + actions["free_requested"]
    reserved = sum(found["total_size"] for found in content["segments"])
    assert rows["total_reserved"].unique().to_list() == [reserved]
    losses = {reason: count for _, reason, count, _ in report.losses}
    assert losses[BEFORE] == began.height + len(content["segments"])
    assert sum(losses.values()) - losses[BEFORE] == actions["free_completed"]


def test_the_tools_on_the_sample(recorded):
    file, content = recorded
    peak, _, _ = replay(content)
    timeline = pasta.run("memory_timeline", trace=file)
    rows = {row["space"]: row for row in timeline.tables["peak_by_space"].to_dicts()}
    assert (rows["tensor"]["peak_bytes"], rows["tensor"]["held_bytes"]) == (peak, peak)
    assert rows["device"]["peak_bytes"] == sum(s["total_size"] for s in content["segments"])
    objects = pasta.run("objects", trace=file)
    found = {row["space"]: row for row in objects.tables["sorted"].to_dicts()}
    assert found["tensor"]["footprint_bytes"] == peak
    assert found["tensor"]["reused_ids"] == 0


def test_a_sample_cut_at_nine_tenths(recorded, tmp_path):
    file, content = recorded
    data = file.read_bytes()
    cut = tmp_path / "cut.pickle"
    cut.write_bytes(data[: len(data) * 9 // 10])
    report = import_trace([cut], tmp_path / "t")
    reason = next(reason for _, reason, _, _ in report.losses if "cut" in reason)
    kept = int(reason.split(", ")[1].split()[0]) - len(content["segments"])
    assert 4000 < kept < 5163
    entries = Counter(event["action"] for event in content["device_traces"][0][:kept])
    rows = Trace.open(tmp_path / "t").scan("memory").filter(pl.col("space") == "tensor").collect()
    assert rows["event"].to_list().count("release") == entries["free_requested"]
    assert any("cut" in warning for warning in report.warnings)
    with pytest.raises(InputError, match="cut"):
        import_trace([cut], tmp_path / "strict", strict=True)
    assert not (tmp_path / "strict").exists()
    cut.write_bytes(gzip.compress(data)[:-400])
    report = import_trace([cut], tmp_path / "zipped")
    assert any("gzip data ends early" in warning for warning in report.warnings)


VALUES = st.none() | st.integers() | st.text(max_size=3) | st.lists(st.none(), max_size=2)
SMALL = snapshot(
    [
        entry("segment_map", 0, 99, frames=FRAMES),
        entry("alloc", 1, 9, frames=FRAMES),
        entry("free_requested", 1, 9),
        {"action": "oom", "size": 4, "device_free": 3, "time_us": US},
    ],
    segments=[segment(0, 99, (1, 9, 9, "active_allocated"))],
    external_annotations=[{"name": "a", "stage": "START", "time_us": US, "device": 0}],
)


def mutated(value, choose):
    """A copy of a value with parts replaced where `choose` says so."""
    if (other := choose()) is not None:
        return other[0]
    if isinstance(value, dict):
        return {key: mutated(part, choose) for key, part in value.items() if choose() is None}
    if isinstance(value, list):
        return [mutated(part, choose) for part in value]
    return value


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_only_input_errors_escape(tmp_path_factory, data):
    changes = data.draw(st.lists(st.none() | st.tuples(VALUES), max_size=60))
    content = mutated(SMALL, lambda: changes.pop() if changes else None)
    stream = bytearray(pickle.dumps(content, data.draw(st.integers(0, 5))))
    for at, new in data.draw(
        st.lists(st.tuples(st.integers(0, 2000), st.binary(max_size=3)), max_size=3)
    ):
        stream[at : at + 2] = new
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "s.pickle").write_bytes(bytes(stream) or b"\x80")
    with contextlib.suppress(InputError):
        import_trace([folder / "s.pickle"], folder / "out")
