"""`objects` on allocations that can be counted on fingers."""

from __future__ import annotations

import pasta


def event(ts, what, address, size, thing, *, space="device"):
    return {"tid": 1, "ts": ts, "event": what, "space": space, "address": address, "bytes": size, "object_id": thing, "device": 0}  # fmt: skip


MEMORY = [
    event(0, "allocate", 0x1000, 100, 1),
    event(10, "release", 0x1000, 100, 1),
    event(12, "allocate", 0x1000, 60, 2),
    event(13, "allocate", 0x2000, 50, 3),
    event(14, "allocate", 0x1000, 7, 1, space="tensor"),
    event(15, "release", 0x1000, 7, 1, space="tensor"),
    event(16, "allocate", 0x1000, 9, 1, space="tensor"),
]
SPANS = [{"tid": 1, "ts": 11, "dur": 2, "span_id": 1, "level": "module", "name": "Linear"}]


def test_sizes_and_what_allocated_them(make_trace):
    report = pasta.run("objects", trace=make_trace(memory=MEMORY, span=SPANS))
    largest = report.tables["largest"].filter(space="device")
    columns = ["object_id", "bytes", "address", "allocated_in", "allocated_ts", "released_ts"]
    assert largest.select(columns).rows() == [
        (1, 100, 0x1000, None, 0, 10),
        (2, 60, 0x1000, "Linear", 12, None),
        (3, 50, 0x2000, None, 13, None),
    ]


def test_what_is_live_at_once_by_space(make_trace):
    """At most 110 bytes of allocations, of 210 in all; tensor id 1 stands for two."""
    report = pasta.run("objects", trace=make_trace(memory=MEMORY))
    columns = ["space", "objects", "largest_bytes", "allocated_bytes", "footprint_bytes", "reused_ids"]  # fmt: skip
    assert report.tables["sorted"].select(columns).rows() == [
        ("device", 3, 100, 210, 110, 0),
        ("tensor", 1, 9, 9, 9, 1),
    ]
    assert report.findings[0].startswith("3 objects of space device, rank 0: the largest 100 B")
