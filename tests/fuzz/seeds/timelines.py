"""Timelines of recorders that are of no one vendor."""

from __future__ import annotations

import json
import zlib

from tests.collect.importers import test_perfetto as perfetto_tests
from tests.collect.importers import test_xplane as xplane_tests
from tests.collect.importers.test_perfetto import (
    event,
    packet,
    process_track,
    snapshot,
    thread_track,
    track,
)
from tests.fuzz.content import Content, one_file
from tests.fuzz.seeds.recorded import recorded
from tests.protobuf_encoder import message

_CHROME = [
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "app"}},
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "ts": 0, "args": {"name": "main"}},
    {"ph": "B", "name": "outer", "cat": "app", "pid": 1, "tid": 2, "ts": 10, "args": {"line": 3}},
    {"ph": "X", "name": "inner", "cat": "app", "pid": 1, "tid": 2, "ts": 11.5, "dur": 2.25, "sf": 5},
    {"ph": "E", "name": "outer", "pid": 1, "tid": 2, "ts": 20},
    {"ph": "C", "name": "memory", "pid": 1, "ts": 12, "args": {"used": 5, "free": 1.5}},
    {"ph": "b", "name": "request", "cat": "net", "id": "0x1", "pid": 1, "tid": 2, "ts": 13},
    {"ph": "e", "name": "request", "cat": "net", "id": "0x1", "pid": 1, "tid": 2, "ts": 15},
    {"ph": "i", "name": "mark", "pid": 1, "tid": 2, "ts": 14, "s": "t"},
    {"ph": "s", "name": "arrow", "id": 3, "pid": 1, "tid": 2, "ts": 14},
]  # fmt: skip


def chrome_json() -> list[Content]:
    """Return Chrome traces as several recorders write them."""
    document = {
        "traceEvents": _CHROME,
        "displayTimeUnit": "ns",
        "stackFrames": {"5": {"name": "f", "parent": 4}, "4": {"name": "main"}},
    }
    return [
        one_file(json.dumps(document)),
        one_file(json.dumps(_CHROME)[:-1]),
        recorded("recorded/py_spy.chrome.json"),
    ]


def perfetto() -> list[Content]:
    """Return traces with threads, GPUs, counters, clocks and compressed packets."""
    begin, end = perfetto_tests.BEGIN, perfetto_tests.END
    annotation = perfetto_tests.annotation
    threads = [
        process_track(1, 70, "python", "train.py"),
        thread_track(2, 70, 71, "main"),
        event(100, begin, 2, "outer", "app"),
        event(100, begin, 2, "inner", "cpu_op", annotation("corr_id", 9)),
        event(150, end, 2),
        event(150, end, 2),
    ]
    gpu = [
        track(3, "COMPUTE AGENT [4] QUEUE [2] (GPU)", parent=1),
        event(
            120,
            begin,
            3,
            "gemm",
            "kernel_dispatch",
            annotation("corr_id", 9),
            annotation("queue", 2),
        ),
        event(170, end, 3),
        track(5, "memory", parent=1, counter=message((3, 3), (4, 1000))),
        event(10, perfetto_tests.COUNTER, 5, more=((30, -3),)),
    ]
    interned = message(
        (23, message((1, 900), (2, 70))),
        (24, message((1, 5), (2, "compute"))),
        (2, message((1, 8), (2, "gemm"))),
    )
    launch = message((1, message((1, 8), (2, 2), (3, 1))), (2, message((1, 256))))
    stages = [
        packet((13, perfetto_tests.CLEARED), (12, interned)),
        packet(
            (8, 200),
            (
                53,
                message(
                    (1, 1), (2, 40), (5, 900), (11, 3), (13, 6), (14, 5), (20, 8), (21, launch)
                ),
            ),
        ),
        packet((8, 300), (11, message((9, begin), (11, 2), (10, 8), (3, b"\x04")))),
    ]
    clocks = [
        snapshot((6, 1000), (1, perfetto_tests.EPOCH + 1000), (3, 400), (64, 5, 1, 10)),
        packet((8, 1600), (58, 3), (11, message((9, begin), (11, 2), (23, "mono")))),
        packet((8, 1700), (58, 3), (11, message((9, end), (11, 2)))),
    ]
    packed = [packet((50, zlib.compress(b"".join(threads))))]
    kinds = [threads, threads + gpu, threads[:2] + stages, threads[:2] + clocks, packed]
    return [one_file(b"".join(packets), "protobuf") for packets in kinds]


def xplane() -> list[Content]:
    """Return profiles of a host, of a GPU, and of both."""
    host, gpu = xplane_tests.host_plane, xplane_tests.gpu_plane
    kinds = [[host()], [gpu()], [host(), gpu(), xplane_tests.environment()]]
    return [one_file(xplane_tests.space(*planes), "protobuf") for planes in kinds]
