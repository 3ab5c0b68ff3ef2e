"""`kernel_memory` on three launches of two kernels."""

from __future__ import annotations

import pytest

import pasta
from tests.tools.memory_run import BASE, CALLS, FRAMES, KERNELS, SPANS, TABLES


def run(make_trace, **tables):
    return pasta.run("kernel_memory", trace=make_trace(**{**TABLES, **tables}))


def test_counts_by_kernel(make_trace):
    report = run(make_trace)
    rows = {row["name"]: row for row in report.tables["top"].to_dicts()}
    copy, total = rows["copy"], rows["sum"]
    assert list(rows) == ["copy", "sum"]
    assert (copy["launches"], copy["accesses"], copy["reads"], copy["writes"]) == (2, 512, 256, 256)
    assert (copy["bytes"], copy["bytes_per_access"], copy["read_share"]) == (2_048, 4, 0.5)
    assert (copy["unique_bytes"], copy["reuse"]) == (2_048, 1)
    assert (total["accesses"], total["atomics"], total["bytes"]) == (110, 10, 960)
    assert (total["bytes_per_access"], total["reuse"]) == (8, 960 / 1_536)
    assert (total["shared_accesses"], total["shared_bytes"], total["local_bytes"]) == (61, 244, 48)
    assert (copy["time_ns"], copy["bytes_per_second"], copy["sectors_per_request"]) == (None,) * 3
    assert report.findings == [
        "copy makes 512 accesses of global memory, 82.3 % of all, in 2 launches: 2.00 KiB, 4 B each",
        "sum makes 12 accesses of local memory: registers that spill, or arrays of each thread",
    ]


def test_only_launches_with_a_time_count_in_the_rate(make_trace):
    kernels = [{**row, "dur": 512} if row["launch_id"] == 1 else row for row in KERNELS]
    row = run(make_trace, kernel=kernels).tables["top"].to_dicts()[0]
    assert (row["name"], row["time_ns"], row["bytes_per_second"]) == ("copy", 512, 2e9)


def test_who_launches_them_and_from_where(make_trace):
    report = run(make_trace)
    busiest = report.tables["busiest"].select("name", "operator", "launches", "bytes").rows()
    assert busiest == [("copy", "aten::copy_", 2, 2_048), ("sum", None, 1, 960)]
    assert report.tables["stacks"].select("launches", "call_stack").rows() == [
        (2, "aten::copy_ > main (a.py:3) > step (a.py:9) > copy"),
        (1, "main (a.py:3) > step (a.py:9) > sum"),
    ]


def test_a_stack_leads_through_python_the_operator_and_native_code(make_trace):
    operators = [{**row, "stack_id": 7} if row["level"] == "operator" else row for row in SPANS]
    frames = [
        *({**row, "stack_id": 7} for row in FRAMES),
        {"stack_id": 5, "depth": 0, "function": "at::copy(int)", "file": "", "language": "c++"},
        {"stack_id": 5, "depth": 1, "function": "cudaLaunchKernel", "file": "", "language": "c++"},
    ]
    stacks = run(make_trace, span=operators, frame=frames).tables["stacks"]
    assert stacks.select("launches", "call_stack").rows() == [
        (1, "at::copy > cudaLaunchKernel > sum"),
        (2, "main (a.py:3) > step (a.py:9) > aten::copy_ > at::copy > cudaLaunchKernel > copy"),
    ]


def test_stacks_of_operators_alone_are_told_once(make_trace):
    operators = [{**row, "stack_id": 5} if row["level"] == "operator" else row for row in SPANS]
    calls = [{**row, "stack_id": 0} for row in CALLS]
    stacks = run(make_trace, span=operators, call=calls).tables["stacks"]
    assert stacks["call_stack"].to_list() == ["main (a.py:3) > step (a.py:9) > aten::copy_ > copy"]


def test_hottest_objects(make_trace):
    rows = run(make_trace).tables["hottest"]
    columns = ["name", "space", "object_id", "place", "accesses", "unique_bytes", "bytes", "launches", "allocated_in"]  # fmt: skip
    assert set(rows.select(columns).rows()) == {
        ("copy", "device", 1, 1, 512, 1_024, 1_024, 2, "Setup"),
        ("copy", "tensor", 1, 1, 256, 512, 512, 2, "Setup"),
        ("copy", "tensor", 2, 1, 256, 512, 512, 2, "Setup"),
        ("sum", "device", 1, 1, 95, 512, 1_024, 1, "Setup"),
        ("sum", "device", 2, 2, 10, 512, 512, 1, "Setup"),
        ("sum", "tensor", 2, 1, 95, 512, 512, 1, "Setup"),
    }


@pytest.mark.parametrize(("objects", "shown"), [(1, 5), (3, 6)])
def test_objects_of_each_kernel_are_limited(make_trace, objects, shown):
    trace = make_trace(**TABLES)
    assert pasta.run("kernel_memory", trace=trace, objects=objects).tables["hottest"].height == shown  # fmt: skip


def test_objects_that_were_not_counted_rank_by_their_bytes(make_trace):
    uncounted = dict.fromkeys(["reads", "writes", "atomics"])
    touch = [{**row, **uncounted} if row["object_id"] else row for row in TABLES["touch"]]
    rows = run(make_trace, touch=touch).tables["hottest"].filter(name="sum", space="device")
    assert rows.select("object_id", "accesses", "unique_bytes").rows() == [(1, None, 512), (2, None, 512)]  # fmt: skip


def test_coalescing_where_there_are_raw_accesses(make_trace):
    accesses = [
        {"device": 0, "launch_id": 2, "request": 0, "lane": lane, "address": BASE + 64 * lane, "bytes": 8, "op": 0, "space": 0}
        for lane in range(16)
    ]  # fmt: skip
    report = run(make_trace, access=accesses)
    row = report.tables["top"].filter(name="sum").to_dicts()[0]
    assert (row["sectors_per_request"], row["ideal_sectors_per_request"]) == (16, 4)
    assert report.findings[1].startswith("sum needs 16 sectors of 32 bytes for a request, where 4")
