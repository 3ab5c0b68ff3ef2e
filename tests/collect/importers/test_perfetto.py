"""Perfetto traces: tracks, slices, counters, clocks, made by a tiny encoder."""

import gzip
import zlib

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pasta
from pasta.collect.importing import import_trace
from pasta.errors import InputError
from pasta.trace import Trace
from tests.collect.importers.import_help import rows
from tests.protobuf_encoder import field, message, varint

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
CLEARED, NEEDS = 1, 2
BOOTTIME, REALTIME, MONOTONIC = 6, 1, 3
EPOCH = 1_700_000_000_000_000_000


def packet(*pairs, sequence=1):
    """A `TracePacket`, as a field of a `Trace`."""
    return field(1, message(*pairs, (10, sequence)))


def thread_track(uuid, pid, tid, name=None):
    return packet((60, message((1, uuid), (4, message((1, pid), (2, tid), (5, name))))))


def process_track(uuid, pid, *command, name=None):
    parts = [(2, part) for part in command]
    return packet((60, message((1, uuid), (3, message((1, pid), *parts, (6, name))))))


def track(uuid, name, parent=None, counter=None):
    return packet((60, message((1, uuid), (2, name), (5, parent), (8, counter))))


def event(ts, kind, uuid, name=None, category=None, *annotations, more=(), sequence=1):
    details = [(4, annotation) for annotation in annotations]
    body = message((9, kind), (11, uuid), (23, name), (22, category), *details, *more)
    return packet((8, ts), (11, body), sequence=sequence)


def annotation(name, value):
    return message((10, name), ({int: 4, str: 6, float: 5}[type(value)], value))


def snapshot(*clocks, primary=None, sequence=1):
    """A snapshot of (clock, time) or (clock, time, incremental, unit)."""
    return packet(
        (
            6,
            message(
                *((1, message(*zip((1, 2, 3, 4), clock, strict=False))) for clock in clocks),
                (2, primary),
            ),
        ),
        sequence=sequence,
    )


def imported(tmp_path, *packets, **more):
    file = tmp_path / "trace.pftrace"
    file.write_bytes(b"".join(packets))
    report = import_trace([file], tmp_path / "t", **more)
    losses = {reason: count for _, reason, count, _ in report.losses}
    return Trace.open(tmp_path / "t"), losses


def test_slices_of_threads_nest(tmp_path):
    trace, losses = imported(
        tmp_path,
        process_track(1, 70, "python", "train.py"),
        thread_track(2, 70, 71, "main"),
        event(100, BEGIN, 2, "outer", "app"),
        event(100, BEGIN, 2, "inner", "cpu_op"),
        event(150, END, 2),
        event(150, END, 2),
        event(160, INSTANT, 2, "mark"),
    )
    spans = trace.scan("span").sort("span_id").collect()
    assert spans.select("name", "level", "pid", "tid", "ts", "dur", "parent_id").rows() == [
        ("outer", "annotation", 70, 71, 100, 50, 0),
        ("inner", "operator", 70, 71, 100, 50, spans["span_id"][0]),
    ]
    assert rows(trace, "process", "pid", "command", "started", "ended") == [
        (70, "python train.py", 100, 150)
    ]
    assert rows(trace, "thread", "pid", "tid", "name") == [(70, 71, "main")]
    assert losses == {"instant events: left out": 1}


def test_tracks_of_no_thread_have_negative_numbers_and_the_process_of_their_parent(tmp_path):
    trace, _ = imported(
        tmp_path,
        process_track(1, 70, name="p"),
        track(5, "requests", parent=1),
        event(10, BEGIN, 5, "r"),
        event(20, END, 5),
    )
    assert rows(trace, "span", "pid", "tid", "name") == [(70, -1, "r")]
    assert rows(trace, "thread", "tid", "name") == [(-1, "requests")]


def test_dispatches_copies_and_calls_of_rocprof(tmp_path):
    trace, losses = imported(
        tmp_path,
        process_track(1, 70, name="app"),
        thread_track(2, 70, 71, "THREAD 71"),
        track(3, "COMPUTE AGENT [4] QUEUE [2] (GPU)", parent=1),
        track(4, "COPY to AGENT [4] THREAD [71] (GPU)", parent=1),
        event(100, BEGIN, 2, "hipLaunchKernel", "hip_api", annotation("corr_id", 9)),
        event(110, END, 2),
        event(
            120,
            BEGIN,
            3,
            "_Z4gemmv",
            "kernel_dispatch",
            annotation("corr_id", 9),
            annotation("queue", 2),
        ),
        event(170, END, 3),
        event(
            180,
            BEGIN,
            4,
            "MEMORY_COPY_HOST_TO_DEVICE",
            "memory_copy",
            annotation("copy_bytes", 4096),
        ),
        event(190, END, 4),
    )
    assert rows(trace, "call", "name", "correlation", "tid", "ts", "dur") == [
        ("hipLaunchKernel", 9, 71, 100, 10)
    ]
    assert rows(trace, "kernel", "name", "correlation", "device", "stream", "ts", "dur") == [
        ("gemm()", 9, 4, 2, 120, 50)
    ]
    assert rows(trace, "copy", "kind", "bytes", "device", "ts", "dur") == [
        ("HtoD", 4096, 4, 180, 10)
    ]
    assert not trace.has("span")
    assert losses == {}
    assert pasta.run("summary", trace.path).facts["rows"] > 0


def test_render_stages_are_kernels(tmp_path):
    interned = message(
        (23, message((1, 900), (2, 70))),
        (24, message((1, 5), (2, "compute"))),
        (2, message((1, 8), (2, "gemm"))),
    )
    launch = message((1, message((1, 8), (2, 2), (3, 1))), (2, message((1, 256))))
    stage = [(1, 1), (2, 40), (5, 900), (11, 3), (13, 6), (14, 5)]
    trace, _ = imported(
        tmp_path,
        packet((13, CLEARED), (12, interned)),
        packet((8, 100), (53, message(*stage))),
        packet((8, 200), (53, message(*stage, (20, 8), (21, launch)))),
    )
    columns = ("pid", "device", "stream", "context", "name", "ts", "dur", "grid_x", "block_x")
    assert rows(trace, "kernel", *columns, "block_y") == [
        (70, 3, 6, 900, "compute", 100, 40, None, None, None),
        (70, 3, 6, 900, "gemm", 200, 40, 8, 256, None),
    ]


def test_counters(tmp_path):
    per_ms = message((3, 3), (4, 1000))
    differences = message((6, "requests"), (5, 1))
    trace, _ = imported(
        tmp_path,
        process_track(1, 70, name="p"),
        track(5, "memory", parent=1, counter=per_ms),
        track(6, "sent", parent=1, counter=differences),
        packet((13, CLEARED)),
        event(10, COUNTER, 5, more=((30, -3),)),
        event(20, COUNTER, 5, more=((44, 1.5),)),
        event(30, COUNTER, 6, more=((30, 4),)),
        event(40, COUNTER, 6, more=((30, 5),)),
        packet((13, CLEARED)),
        event(50, COUNTER, 6, more=((30, 2),)),
        event(60, INSTANT, 1, more=((31, varint(5)), (12, varint(7)))),
    )
    assert rows(trace, "metric", "pid", "ts", "name", "value", "unit") == [
        (70, 10, "memory", -3000.0, "bytes"),
        (70, 20, "memory", 1500.0, "bytes"),
        (70, 30, "sent", 4.0, "requests"),
        (70, 40, "sent", 9.0, "requests"),
        (70, 50, "sent", 2.0, "requests"),
        (70, 60, "memory", 7000.0, "bytes"),
    ]
    assert not trace.has("thread")


def test_interned_names_and_defaults_until_they_are_cleared(tmp_path):
    def interned(name):
        return message((1, message((1, 4), (2, "cpu_op"))), (2, message((1, 8), (2, name))))

    defaults = message((11, message((11, 2))))
    body = message((9, BEGIN), (10, 8), (3, varint(4)))
    end = message((9, END))
    trace, losses = imported(
        tmp_path,
        thread_track(2, 70, 71),
        packet((8, 5), (13, NEEDS), (11, body)),
        packet((8, 10), (13, CLEARED), (12, interned("first")), (59, defaults), (11, body)),
        packet((8, 20), (13, NEEDS), (11, end)),
        packet((8, 30), (13, CLEARED), (12, interned("second")), (59, defaults), (11, body)),
        packet((8, 40), (13, NEEDS), (11, end)),
        packet((8, 50), (42, 1), (13, NEEDS), (11, body)),
        packet((8, 60), (13, CLEARED), (12, interned("other")), (11, body), sequence=2),
        packet((8, 70), (11, end), sequence=2),
    )
    assert rows(trace, "span", "name", "level", "tid", "ts", "dur") == [
        ("first", "operator", 71, 10, 10),
        ("second", "operator", 71, 30, 10),
        ("other", "operator", -1, 60, 10),
    ]
    [reason] = [reason for reason in losses if "names were lost" in reason]
    assert losses[reason] == 2


def test_clocks_become_the_traces_and_that_becomes_time_since_1970(tmp_path):
    clocks = [(BOOTTIME, 1000), (REALTIME, EPOCH + 1000), (MONOTONIC, 400), (64, 5, 1, 10)]
    trace, losses = imported(
        tmp_path,
        thread_track(2, 70, 71),
        snapshot(*clocks),
        event(2000, BEGIN, 2, "boot"),
        event(2600, END, 2),
        packet((8, 1600), (58, MONOTONIC), (11, message((9, BEGIN), (11, 2), (23, "mono")))),
        packet((8, 1700), (58, MONOTONIC), (11, message((9, END), (11, 2)))),
        packet((59, message((58, 64))), (13, CLEARED)),
        packet((8, 7), (11, message((9, BEGIN), (11, 2), (23, "delta")))),
        packet((8, 2), (11, message((9, END), (11, 2)))),
    )
    # Clock 64 counts tens of ns from its last packet, 50 ns when the trace's was at 1000 ns.
    assert dict(rows(trace, "span", "name", "ts")) == {
        "boot": EPOCH + 2000,
        "mono": EPOCH + 2200,
        "delta": EPOCH + 1070,
    }
    assert dict(rows(trace, "span", "name", "dur")) == {"boot": 600, "mono": 100, "delta": 20}
    assert losses == {}


def test_a_clock_that_nothing_relates_is_kept_and_counted(tmp_path):
    trace, losses = imported(
        tmp_path,
        packet((8, 10), (58, 90), (11, message((9, BEGIN), (11, 2), (23, "a")))),
        packet((8, 30), (58, 90), (11, message((9, END), (11, 2)))),
    )
    assert rows(trace, "span", "ts", "dur") == [(10, 20)]
    assert [count for reason, count in losses.items() if "no snapshot" in reason] == [2]


def test_compressed_packets(tmp_path):
    inner = thread_track(2, 70, 71) + event(10, BEGIN, 2, "a") + event(30, END, 2)
    compressed = packet((50, zlib.compress(inner)))
    nested = packet((50, zlib.compress(compressed)))
    broken = packet((50, b"no zlib"))
    trace, losses = imported(tmp_path, compressed, nested, broken)
    assert rows(trace, "span", "name", "tid", "dur") == [("a", 71, 20)]
    assert losses == {"packets that cannot be read: left out": 2}


def test_what_is_left_out_is_counted(tmp_path):
    legacy = message((2, ord("X")), (3, 5), (18, 70), (19, 72))
    trace, losses = imported(
        tmp_path,
        thread_track(2, 70, 71),
        packet((1, b"")),
        packet((53, message((7, b"")))),
        packet((200, b"x")),
        packet((33, b"config")),
        event(10, END, 2),
        event(20, BEGIN, 2, "never ends"),
        event(30, 0, 2, "complete", more=((6, legacy),)),
        event(0, BEGIN, 2, "no time"),
        event(40, 0, 2, "async", more=((6, message((2, ord("b")))),)),
        field(1, b"\x0f"),
    )
    assert rows(trace, "span", "name", "tid", "ts", "dur") == [
        ("never ends", 71, 20, None),
        ("complete", 72, 30, 5000),
    ]
    assert {reason[:30]: count for reason, count in losses.items()} == {
        "packets of events of the Linux": 1,
        "packets at no time that can be": 2,
        "packets of field 200: left out": 1,
        "ends of slices that never bega": 1,
        "slices that never ended: kept ": 1,
        "events of old kinds (asynchron": 1,
        "packets that cannot be read: l": 1,
    }


def test_a_slice_that_ends_before_it_begins_is_unfinished(tmp_path):
    trace, losses = imported(
        tmp_path, thread_track(2, 70, 71), event(20, BEGIN, 2, "a"), event(10, END, 2)
    )
    assert rows(trace, "span", "ts", "dur") == [(20, None)]
    assert losses == {"slices that end before they begin: kept as unfinished": 1}


def many(count=20_000):
    pairs = [event(10 * n, BEGIN, 2, "x") + event(10 * n + 5, END, 2) for n in range(1, count + 1)]
    return thread_track(2, 70, 71) + b"".join(pairs)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_cut_short(tmp_path, pack):
    content = pack(many())
    file = tmp_path / "cut"
    file.write_bytes(content[: len(content) * 9 // 10])
    report = import_trace([file], tmp_path / "t")
    kept = report.rows["span"]
    assert 15_000 < kept < 20_000
    [reason] = [reason for _, reason, _, _ in report.losses if "packets kept" in reason]
    assert "ends early" in reason
    with pytest.raises(InputError, match="ends early"):
        import_trace([file], tmp_path / "s", strict=True)


VALID = b"".join(
    [
        snapshot((BOOTTIME, 1000), (REALTIME, EPOCH + 1000)),
        process_track(1, 70, "python"),
        thread_track(2, 70, 71, "main"),
        track(3, "GPU 1", parent=1),
        track(5, "memory", parent=1, counter=message((3, 3))),
        event(100, BEGIN, 2, "outer", "app", annotation("a", "b"), annotation("c", 2)),
        event(110, BEGIN, 3, "gemm", "kernel", annotation("corr_id", 9)),
        event(120, COUNTER, 5, more=((30, 7),)),
        event(150, END, 3),
        event(150, END, 2),
        packet((8, 200), (53, message((2, 40), (5, 900)))),
        packet((50, zlib.compress(thread_track(9, 7, 8)))),
    ]
)


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, len(VALID)), st.integers(0, 30), st.binary(max_size=5)), max_size=4
    )
)
def test_damage_is_counted_or_refused(tmp_path_factory, changes):
    content = VALID
    for at, size, put in changes:
        content = content[:at] + put + content[at + size :]
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "x.pftrace").write_bytes(content or b"x")
    try:
        import_trace([folder / "x.pftrace"], folder / "t")
    except InputError:
        return
    trace = Trace.open(folder / "t")
    for table in {"span", "kernel", "copy", "call"} & set(trace.tables()):
        assert trace.scan(table).filter(pl.col("dur") < 0).collect().is_empty()


@pytest.mark.parametrize("content", [b'\n{"traceEvents": []}', b"\n\n\n text", b"\n\x02\x08\x01"])
def test_other_files_are_not_taken_for_a_trace(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    if content.lstrip().startswith(b"{"):
        assert import_trace([tmp_path / "x"], tmp_path / "t").format != "Perfetto trace (protobuf)"
    else:
        with pytest.raises(InputError, match="unknown format"):
            import_trace([tmp_path / "x"], tmp_path / "t")
