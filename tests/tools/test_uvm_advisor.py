"""`uvm_advisor` on two operators, and `paged_uses` on the same, counted by hand."""

from __future__ import annotations

import polars as pl

import pasta

MIB = 1 << 20
BASE = 64 << 30
SPANS = [
    {"tid": 1, "level": "operator", "name": name, "ts": ts, "dur": 500, "span_id": number}
    for number, name, ts in [(1, "mm", 1_000), (2, "add", 2_000), (3, "mm", 900_000_000)]
]
CALLS = [
    {"tid": 1, "name": "cudaLaunchKernel", "ts": ts, "dur": 5, "correlation": number}
    for number, ts in [(1, 1_010), (2, 1_100), (3, 2_010), (4, 900_000_010)]
]
KERNELS = [
    {"device": 0, "launch_id": n, "correlation": n, "ts": ts, "dur": 10, "name": f"k{n}"}
    for n, ts in [(1, 1_050), (2, 1_200), (3, 2_050), (4, 900_000_050)]
]
MEMORY = [
    {"device": 0, "space": space, "ts": ts, "event": "allocate", "address": BASE + at, "bytes": size, "object_id": number}
    for space, number, ts, at, size in [
        ("device", 1, 1, 0, 64 * MIB),
        ("tensor", 1, 2, 0, 2 * MIB),
        ("tensor", 2, 3, 2 * MIB, 32 * MIB),
    ]
]  # fmt: skip
TOUCHES = [
    {"device": 0, "launch_id": launch, "span_id": 0, "space": space, "object_id": number, "granularity": 512, "unique_bytes": size}
    for launch, space, number, size in [
        (1, "tensor", 1, 2 * MIB),
        (1, "device", 1, 2 * MIB),
        (2, "tensor", 1, MIB),
        (2, "device", 1, MIB),
        (3, "tensor", 2, 65_536),
        (3, "device", 1, 65_536),
        (4, "tensor", 1, 2 * MIB),
        (4, "device", 1, 2 * MIB),
    ]
]  # fmt: skip
TABLES = {"span": SPANS, "call": CALLS, "kernel": KERNELS, "memory": MEMORY, "touch": TOUCHES}
KEY = ["operator", "occurrence", "object_id", "bytes", "touched_bytes"]


def run(make_trace, tool="uvm_advisor", **tables):
    return pasta.run(tool, trace=make_trace(**{**TABLES, **tables}))


def of(report, granularity, advice, columns):
    plan = report.tables["plan"].filter(granularity=granularity, advice=advice)
    return plan.select(columns).rows()


def test_what_is_touched_for_the_most_part_is_prefetched_once_for_each_operator(make_trace):
    report = run(make_trace)
    whole = 2 * MIB
    assert of(report, "tensor", "prefetch", KEY) == [
        ("mm", 1, 1, whole, whole),
        ("mm", 2, 1, whole, whole),
    ]
    assert of(report, "allocation", "prefetch", KEY) == []
    saved = report.tables["plan"].filter(advice="prefetch")
    assert saved.select("saved_ns", "wasted_ns").rows() == [(640_000, 0)] * 2


def test_bytes_that_whole_prefetches_move_for_nothing(make_trace):
    rows = {row["level"]: row for row in run(make_trace).tables["ranked"].to_dicts()}
    tensor, allocation = rows["tensor"], rows["allocation"]
    assert (tensor["uses"], tensor["bytes"]) == (3, 36 * MIB)
    assert tensor["untouched_bytes"] == tensor["spared_bytes"] == 32 * MIB - 65_536
    assert (tensor["prefetches"], tensor["left"], tensor["wasted_bytes"]) == (2, 1, 0)
    assert (allocation["uses"], allocation["bytes"]) == (3, 192 * MIB)
    assert allocation["touched_bytes"] == 4 * MIB + 65_536
    assert (allocation["prefetches"], allocation["left"]) == (0, 3)


def test_what_is_used_from_end_to_end_is_pinned(make_trace):
    report = run(make_trace)
    assert of(report, "allocation", "pin", ["object_id", "bytes"]) == [(1, 64 * MIB)]
    assert of(report, "tensor", "pin", ["object_id", "bytes"]) == []
    assert "pin 1 object (allocation) of 64.00 MiB" in " ".join(report.findings)


def test_what_lies_idle_long_enough_is_evicted(make_trace):
    """The tensor is used at 1,050 to 1,210 and again at 900,000,050; nothing follows the last use."""
    report = run(make_trace)
    found = of(report, "tensor", "evict", ["operator", "occurrence", "object_id", "idle_ns"])
    assert found == [("mm", 1, 1, 900_000_050 - 1_210)]
    released = [{**MEMORY[2], "ts": 950_000_000, "event": "release"}]
    report = pasta.run(
        "uvm_advisor", trace=make_trace("released", **{**TABLES, "memory": [*MEMORY, *released]})
    )
    found = of(report, "tensor", "evict", ["operator", "object_id", "idle_ns"])
    assert ("add", 2, 950_000_000 - 2_060) in found


def test_the_plan_names_objects_by_the_order_of_their_allocation(make_trace):
    plan = run(make_trace).tables["plan"].filter(granularity="tensor").sort("object_id")
    assert plan.select("object_id", "allocation").unique(maintain_order=True).rows() == [(1, 1)]


def test_parts_add_up(make_trace):
    ranked = run(make_trace).tables["ranked"]
    assert (ranked["touched_bytes"] + ranked["untouched_bytes"]).equals(ranked["bytes"])
    assert (
        (ranked["prefetches"] + ranked["left"]).cast(pl.Int64).equals(ranked["uses"].cast(pl.Int64))
    )
    assert ranked["untouched_share"].is_between(0, 1).all()


def test_kernels_without_operators_and_durations_stand_for_themselves(make_trace):
    kernels = [{**row, "dur": None} for row in KERNELS]
    report = run(make_trace, span=[], call=[], kernel=kernels)
    found = of(report, "tensor", "prefetch", ["operator", "occurrence"])
    assert found == [("k1", 1), ("k2", 1), ("k4", 1)]


def test_nothing_touched(make_trace):
    report = run(make_trace, touch=[{**TOUCHES[0], "space": "global", "object_id": 0}])
    assert (report.findings, report.tables["plan"].height) == ([], 0)


def test_uses_have_the_addresses_and_bytes_that_are_known(make_trace):
    report = run(make_trace, "paged_uses")
    sums = report.tables["sums"].row(0, named=True)
    assert (sums["finest"], sums["uses"], sums["allocations"]) == ("tensor", 4, 4)
    assert (sums["unplaced"], sums["used_bytes"]) == (0, 5 * MIB + 65_536)
    largest = report.tables["largest"].select("operator", "object_id", "address", "bytes").rows()
    assert sorted(largest) == [
        ("add", 2, BASE + 2 * MIB, 65_536),
        ("mm", 1, BASE, MIB),
        ("mm", 1, BASE, 2 * MIB),
        ("mm", 1, BASE, 2 * MIB),
    ]
