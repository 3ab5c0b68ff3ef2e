"""`uvm_simulate` on three launches over a memory of one block, counted by hand."""

from __future__ import annotations

import pytest

import pasta
from pasta.errors import ConfigError

MIB = 1 << 20
BASE = 64 << 30
KERNELS = [
    {
        "launch_id": number,
        "correlation": number,
        "device": 0,
        "ts": 1_000 * number,
        "dur": 100,
        "name": "k",
    }
    for number in (1, 2, 3)
]
TENSOR = {"device": 0, "space": "tensor", "ts": 10, "event": "allocate"}
MEMORY = [
    {**TENSOR, "space": "device", "address": BASE, "bytes": 6 * MIB, "object_id": 1},
    {**TENSOR, "address": BASE, "bytes": 2 * MIB, "object_id": 1},
    {**TENSOR, "address": BASE + 2 * MIB, "bytes": 2 * MIB, "object_id": 2},
]
USED = [(1, 1), (2, 2), (3, 1)]


def touch(launch, space, object_id, size, **more):
    key = {"device": 0, "launch_id": launch, "span_id": 0, "space": space, "object_id": object_id}
    return {**key, "granularity": 512, "unique_bytes": size, **more}


TOUCHES = [
    row
    for launch, tensor in USED
    for row in (
        touch(launch, "device", 1, 2 * MIB),
        touch(launch, "global", 0, 2 * MIB),
        touch(launch, "tensor", tensor, 2 * MIB),
    )
]
TABLES = {"kernel": KERNELS, "memory": MEMORY, "touch": TOUCHES}


def run(make_trace, memory=2 * MIB, **tables):
    return pasta.run("uvm_simulate", trace=make_trace(**{**TABLES, **tables}), memory=memory)


def by_policy(report):
    return {row["policy"]: row for row in report.tables["policies"].to_dicts()}


@pytest.mark.parametrize(
    ("policy", "faults", "came", "went", "wasted"),
    [
        ("no advice", 96, 2, 4, 0),
        ("whole allocations", 96, 16, 20, 16),
        ("whole tensors", 0, 2, 4, 0),
        ("whole tensors that pay", 0, 2, 4, 0),
    ],
)
def test_one_block_for_two_tensors_in_turns(make_trace, policy, faults, came, went, wasted):  # noqa: PLR0917
    """The allocation has three blocks: its prefetch pushes out what it fetched, and the tensor."""
    row = by_policy(run(make_trace))[policy]
    assert (row["used_bytes"], row["memory_bytes"]) == (4 * MIB, 2 * MIB)
    assert row["faults"] == faults
    assert row["bytes_in"] == came * MIB
    assert row["bytes_out"] == went * MIB
    assert row["wasted_bytes"] == wasted * MIB
    assert row["bytes_in"] + row["new_bytes"] - row["bytes_out"] == 2 * MIB
    stall = faults * 20_000 + (came + went) * MIB / 25
    assert row["run_ns"] == 300
    assert abs(row["stall_ns"] - stall) <= 3
    assert row["total_ns"] == row["run_ns"] + row["stall_ns"]


def test_with_room_for_all_only_first_uses_fault(make_trace):
    rows = by_policy(run(make_trace, memory=1 << 30))
    assert [rows[name]["faults"] for name in sorted(rows)] == [64, 0, 0, 0]
    assert [rows[name]["bytes_out"] for name in sorted(rows)] == [0, 0, 0, 0]
    assert [rows[name]["slowdown"] for name in sorted(rows)] == [1, 1, 1, 1]


def test_a_tensor_that_is_hardly_touched_is_left_to_fault(make_trace):
    """31 of its 32 pages would move for nothing, which costs 81 us; its fault costs 20 us."""
    touches = [touch(1, "tensor", 1, 65_536), touch(2, "tensor", 2, 2 * MIB)]
    rows = by_policy(run(make_trace, memory=1 << 30, touch=touches))
    assert [rows[name]["faults"] for name in sorted(rows)] == [33, 33, 0, 1]


def test_findings_compare_the_policies(make_trace):
    found = run(make_trace).findings
    assert found[0] == (
        "device 0 of rank 0 with 2.00 MiB for 4.00 MiB that are used: 96 faults, 2.00 MiB moved in"
        " and 4.00 MiB out; the run takes 1.696 times as long as with room for all"
    )
    assert "16.00 MiB of what was fetched evicted unused" in found[1]


def test_half_of_what_is_used_is_two_tensors_in_one_block(make_trace):
    report = pasta.run("uvm_simulate", trace=make_trace(**TABLES), oversubscription=2)
    assert by_policy(report)["no advice"]["memory_bytes"] == 2 * MIB


def test_data_from_before_the_trace_comes_from_the_host(make_trace):
    kept = [MEMORY[0], {**MEMORY[1], "ts": 9_000, "event": "release"}, MEMORY[2]]
    assert by_policy(run(make_trace, memory=1 << 30))["no advice"]["bytes_in"] == 0
    trace = make_trace("held", **{**TABLES, "memory": kept})
    report = pasta.run("uvm_simulate", trace=trace, memory=1 << 30)
    assert by_policy(report)["no advice"]["bytes_in"] == 2 * MIB


def test_blocks_tell_which_pages_of_an_allocation_are_used(make_trace):
    counted = [
        touch(1, "device", 1, None, block=block, granularity=65_536, reads=1) for block in (0, 40)
    ]
    rows = by_policy(run(make_trace, memory=1 << 30, touch=[*TOUCHES[:3], *counted]))
    assert rows["no advice"]["faults"] == 2
    assert rows["no advice"]["used_bytes"] == 4 * MIB
    assert rows["whole tensors"]["faults"] == 1


def test_operators_stand_in_where_no_launch_is_known(make_trace):
    spans = [
        {"tid": 1, "span_id": 7, "level": "operator", "name": "aten::mm", "ts": 5, "dur": 50},
        {"tid": 1, "span_id": 8, "level": "operator", "name": "aten::mm", "ts": 60, "dur": None},
    ]
    touches = [{**touch(0, "tensor", 1, 2 * MIB), "span_id": span} for span in (7, 8)]
    trace = make_trace(span=spans, memory=MEMORY[1:2], touch=touches)
    report = pasta.run("uvm_simulate", trace=trace)
    row = by_policy(report)["no advice"]
    assert (row["launches"], row["faults"], row["run_ns"]) == (2, 32, 50)
    assert any("knows no allocations beside tensors" in found for found in report.findings)


def test_what_lies_in_no_known_object_is_counted(make_trace):
    stray = touch(1, "tensor", 9, 4_096)
    report = run(make_trace, touch=[*TOUCHES, stray])
    assert any(
        found.startswith("left out, in no object whose address is known: 1 use of 4.00 KiB")
        for found in report.findings
    )
    assert by_policy(report)["no advice"]["faults"] == 96


def test_ranks_are_apart(make_trace):
    other = [{**row, "rank": 1, "pid": 2} for row in TOUCHES[:3]]
    memory = [*MEMORY, *({**row, "rank": 1, "pid": 2} for row in MEMORY)]
    kernels = [*KERNELS, {**KERNELS[0], "rank": 1, "pid": 2}]
    trace = make_trace(kernel=kernels, memory=memory, touch=[*TOUCHES, *other])
    table = pasta.run("uvm_simulate", trace=trace, memory=2 * MIB).tables["policies"]
    faults = table.select("rank", "policy", "faults").rows()
    assert faults[:3] == [
        (0, "no advice", 96),
        (0, "whole allocations", 96),
        (0, "whole tensors", 0),
    ]
    assert faults[4] == (1, "no advice", 32)


def test_nothing_touched(make_trace):
    trace = make_trace(kernel=KERNELS, memory=MEMORY, touch=[touch(1, "global", 0, 0)])
    report = pasta.run("uvm_simulate", trace=trace)
    assert report.tables["policies"].height == 0
    assert report.findings == []


@pytest.mark.parametrize(("name", "value", "least"), [("bandwidth", 0, 1), ("fault_ns", -1, 0)])
def test_costs_that_make_no_sense_are_refused(make_trace, name, value, least):
    message = rf"^uvm_simulate: parameters\.{name}: must be {least} or more, got {value}"
    with pytest.raises(ConfigError, match=message):
        pasta.run("uvm_simulate", trace=make_trace(**TABLES), **{name: value})


@pytest.mark.parametrize(("mebibytes", "fits"), [(2, False), (1024, True)])
def test_no_gain_is_told_where_everything_fits(make_trace, mebibytes, fits):
    report = pasta.run("uvm_simulate", trace=make_trace(**TABLES), memory=mebibytes * MIB)
    assert any(found.startswith("all that is used fits") for found in report.findings) == fits
    assert any("times the time of no advice" in found for found in report.findings) != fits


@pytest.mark.parametrize(
    ("space", "read", "came"),
    [("managed", 65_536, 2), ("managed", 0, 0), ("managed", None, 2), ("device", 65_536, 0)],
)
def test_managed_memory_that_is_read_first_was_written_by_the_host(make_trace, space, read, came):
    """Two pages: nothing else can have written what a launch reads first; who writes first moves nothing.

    What a tensor map spans may be read.
    """
    written = None if read is None else 65_536
    allocated = [{**MEMORY[0], "space": space}]
    touches = [touch(1, space, 1, 2 * 65_536, unique_read=read, unique_written=written)]
    trace = make_trace(kernel=KERNELS, memory=allocated, touch=touches)
    rows = by_policy(pasta.run("uvm_simulate", trace=trace, memory=1 << 30))
    assert rows["no advice"]["faults"] == 2
    assert rows["no advice"]["bytes_in"] == came * 65_536
    assert rows["no advice"]["new_bytes"] == (2 - came) * 65_536
