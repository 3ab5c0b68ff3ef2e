"""`working_set` on touches whose answer is worked out by hand."""

from __future__ import annotations

import pasta


def allocate(ts, address, size, thing, space="tensor"):
    return {"ts": ts, "device": 0, "tid": 1, "event": "allocate", "space": space, "address": address, "bytes": size, "object_id": thing}  # fmt: skip


def release(ts, address, size, thing, space="tensor"):
    return {**allocate(ts, address, size, thing, space), "event": "release"}


def touch(launch, thing, space="tensor", unique=None, **more):
    return {"device": 0, "launch_id": launch, "span_id": 0, "space": space, "object_id": thing, "unique_bytes": unique, **more}  # fmt: skip


MEMORY = [
    allocate(0, 0, 1_000, 1, "device"),
    allocate(1, 0, 100, 1),
    allocate(2, 100, 200, 2),
    release(50, 0, 100, 1),
    allocate(60, 0, 400, 3),
]
KERNELS = [
    {"device": 0, "launch_id": 1, "ts": 10, "dur": 5, "name": "first"},
    {"device": 0, "launch_id": 2, "ts": 70, "dur": 5, "name": "second"},
    {"device": 0, "launch_id": 3, "ts": 80, "dur": 5, "name": "third"},
]
TOUCHES = [
    touch(1, 1, unique=8),
    touch(1, 2, unique=16),
    touch(2, 3, unique=400),
    touch(3, 2, unique=1),
    touch(3, 0),
    touch(1, 1, "device", unique=24),
    touch(2, 1, "device", unique=400),
    touch(3, 2, unique=1, block=0),
    touch(3, 2, unique=1, pc=16),
    {**touch(0, 1, unique=99), "span_id": 7},
]


def run(make_trace, **tables):
    given = {"memory": MEMORY, "kernel": KERNELS, "touch": TOUCHES, **tables}
    return pasta.run("working_set", trace=make_trace(**given))


def test_launches_by_hand(make_trace):
    """Tensor sets 300, 400, 200; live tensors at launch 300, 600, 600; peak 600."""
    report = run(make_trace)
    rows = {row["space"]: row for row in report.tables["sorted"].to_dicts()}
    tensor, device = rows["tensor"], rows["device"]
    assert (tensor["units"], device["units"]) == (3, 2)
    assert tensor["working_set_bytes"] == 400
    assert tensor["smallest_bytes"] == 200
    assert tensor["mean_bytes"] == 300
    assert tensor["median_bytes"] == 300
    assert tensor["p90_bytes"] == 380
    assert tensor["unique_bytes"] == 400
    assert tensor["mean_footprint_bytes"] == 500
    assert tensor["footprint_bytes"] == 600
    assert tensor["ratio"] == 1.5
    assert tensor["unknown_objects"] == 1
    assert device["working_set_bytes"] == 1_000
    assert device["footprint_bytes"] == 1_000
    assert device["unique_bytes"] == 400


def test_facts_are_of_the_finest_space(make_trace):
    facts = run(make_trace).facts
    assert facts["working_set_bytes"] == 400
    assert facts["footprint_bytes"] == 600
    assert facts["ratio"] == 1.5
    without_tensors = [row for row in TOUCHES if row["space"] == "device"]
    assert run_facts(make_trace, without_tensors)["working_set_bytes"] == 1_000


def run_facts(make_trace, touches):
    trace = make_trace("other", memory=MEMORY, kernel=KERNELS, touch=touches)
    return pasta.run("working_set", trace=trace).facts


def test_operators_where_there_are_no_kernels(make_trace):
    spans = [{"tid": 1, "ts": 5, "dur": 3, "span_id": 7, "level": "operator", "name": "aten::add"}]
    trace = make_trace(memory=MEMORY, span=spans, touch=[TOUCHES[-1]])
    report = pasta.run("working_set", trace=trace)
    row = report.tables["largest"].to_dicts()[0]
    assert (row["name"], row["working_set_bytes"], row["live_bytes"]) == ("aten::add", 100, 300)


def test_unknown_objects_are_a_finding(make_trace):
    assert any("outside every known object" in finding for finding in run(make_trace).findings)


def of_process(rows, **place):
    return [{**row, **place} for row in rows]


def test_ranks_without_launches_keep_their_operators(make_trace):
    """Rank 0 has launches, rank 1 operators only: a launch elsewhere must not hide them."""
    operators = [{**touch(0, 2), "span_id": 7}]
    touches = [*TOUCHES, *of_process(operators, rank=1), *of_process(operators, rank=1, pid=5)]
    memory = [*MEMORY, *of_process(MEMORY, rank=1), *of_process(MEMORY, rank=1, pid=5)]
    rows = run(make_trace, touch=touches, memory=memory).tables["sorted"]
    found = rows.filter(rank=1).select("pid", "kind", "units", "working_set_bytes").rows()
    assert found == [(1, "operators", 1, 200), (5, "operators", 1, 200)]
    assert rows.filter(rank=0, space="tensor")["units"].item() == 3


def test_ranks_without_tensors_stay_among_the_facts(make_trace):
    """Rank 1 knows device objects only; its 1,000 bytes exceed the tensors of rank 0."""
    touches = [touch(1, 1), *of_process([touch(1, 1, "device")], rank=1)]
    memory = [*MEMORY, *of_process(MEMORY, rank=1)]
    facts = run(make_trace, touch=touches, memory=memory).facts
    assert (facts["working_set_bytes"], facts["space"]) == (1_000, "device")


def test_an_object_id_that_is_used_twice_counts_once(make_trace):
    memory = [allocate(0, 0, 100, 1), release(20, 0, 100, 1), allocate(30, 64, 60, 1)]
    report = run(make_trace, memory=memory, touch=[touch(1, 1)])
    row = report.tables["sorted"].to_dicts()[0]
    assert (row["working_set_bytes"], row["reused_ids"]) == (100, 1)
    assert any(
        "1 object id stands for several allocations" in finding for finding in report.findings
    )


def test_findings_say_what_was_counted(make_trace):
    findings = run(make_trace).findings
    assert any(finding.startswith("half of the 3 kernel launches") for finding in findings)


def memory_run(**more):
    """One launch with the totals and the fallback of a memory run, and an operator around it.

    Allocation 1 of 4 MiB: 1,024 bytes at 512 and 2 MiB at 2 MiB. Tensor 1 of 2,048 bytes: 512.
    """
    size = 4 << 20
    totals = {"unique_bytes": 5 << 20, "reads": 10, "writes": 0, "atomics": 0}
    return {
        "memory": [allocate(0, 0, size, 1, "device"), allocate(1, 0, 2_048, 1)],
        "kernel": [{"device": 0, "launch_id": 1, "ts": 10, "correlation": 9, "name": "gemm", **more}],
        "call": [{"tid": 4, "ts": 8, "dur": 3, "correlation": 9, "name": "cuLaunchKernel"}],
        "span": [{"tid": 4, "ts": 5, "dur": 9, "span_id": 3, "level": "operator", "name": "aten::mm"}],
        "touch": [
            touch(1, 0, "global", **totals),
            touch(1, 0, "shared", reads=7),
            touch(1, 0, "local", reads=7),
            touch(1, 0, "unknown", reads=2, writes=1),
            touch(1, 1, "device", unique=1_024, granularity=512),
            touch(1, 1, "device", unique=2 << 20, granularity=2 << 20),
            touch(1, 1, "device", block=0, reads=4),
            touch(1, 1, unique=512, granularity=512),
            touch(1, 0, unique=(2 << 20) + 512, granularity=512),
        ],
    }  # fmt: skip


def test_a_memory_run_has_objects_and_tensors_side_by_side(make_trace):
    report = pasta.run("working_set", trace=make_trace(**memory_run()))
    rows = {row["space"]: row for row in report.tables["sorted"].to_dicts()}
    assert set(rows) == {"device", "tensor"}
    assert (rows["device"]["working_set_bytes"], rows["device"]["unique_bytes"]) == (4 << 20, (2 << 20) + 1_024)  # fmt: skip
    assert (rows["tensor"]["working_set_bytes"], rows["tensor"]["unique_bytes"]) == (2_048, 512)
    assert (rows["device"]["outside_bytes"], rows["tensor"]["outside_bytes"]) == (None, (2 << 20) + 512)  # fmt: skip
    assert (report.facts["space"], report.facts["kind"]) == ("tensor", "kernel launches")
    assert any("3 accesses of rank 0, in 1 launch, fell outside every known allocation" in f for f in report.findings)  # fmt: skip
    assert any("outside every known object of space tensor, one of them 2.00 MiB" in f for f in report.findings)  # fmt: skip


def test_launches_tell_their_operator_and_their_time_where_it_is_known(make_trace):
    report = pasta.run("working_set", trace=make_trace(**memory_run(dur=70)))
    rows = report.tables["largest"].select("space", "name", "launched_by", "dur", "objects").rows()
    assert rows == [("device", "gemm", "aten::mm", 70, 1), ("tensor", "gemm", "aten::mm", 70, 1)]
    untimed = pasta.run("working_set", trace=make_trace("untimed", **memory_run()))
    assert untimed.tables["largest"]["dur"].to_list() == [None, None]


def test_launches_by_name(make_trace):
    """Two launches of `again` with sets 300 and 400, one of `third` with 200."""
    kernels = [{**row, "name": name} for row, name in zip(KERNELS, ("again", "again", "third"), strict=True)]  # fmt: skip
    rows = run(make_trace, kernel=kernels).tables["largest_names"].filter(space="tensor")
    columns = ["name", "units", "working_set_bytes", "mean_bytes", "unique_bytes", "time_ns"]
    assert rows.select(columns).rows() == [("again", 2, 400, 350, 400, 10), ("third", 1, 200, 200, 1, 5)]  # fmt: skip
