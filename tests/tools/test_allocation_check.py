"""`allocation_check` and `launch_check`: each mistake once, made by hand."""

from __future__ import annotations

import pasta
from tests.tools.training_run import event, life, steps


def problems(report, cost="cost_bytes"):
    rows = report.tables["by_problem"].select("problem", "times", cost).rows()
    return {problem: (times, amount) for problem, times, amount in rows}


def test_each_mistake_is_found(make_trace):
    """100 B leak in each of three steps; 70 B are released twice, 33 B never allocated."""
    rows = [row for start in (13, 113, 213) for row in life(start, None, start, 100)]
    rows += life(114, None, 500, 5000)
    rows += [*life(20, 30, 600, 70), event("release", 35, 600, 70), event("release", 36, 700, 33)]
    report = pasta.run("allocation_check", trace=make_trace(memory=rows, span=steps()))
    assert problems(report) == {
        "allocated in every step and never released": (3, 300),
        "released twice": (1, 70),
        "released but not allocated in the trace": (1, 33),
    }
    leak = report.tables["worst"].to_dicts()[0]
    assert (leak["place"], leak["times"]) == ("aten::mm in forward", 3)


def test_a_run_of_two_steps_proves_no_leak(make_trace):
    rows = [row for start in (13, 113) for row in life(start, None, start, 100)]
    report = pasta.run("allocation_check", trace=make_trace(memory=rows, span=steps(2)))
    assert problems(report) == {}


def test_uses_tell_what_is_unused_and_late(make_trace):
    """Object 1 is used at 12 only and lives from 11 to 91; object 2 is never used, object 3 to its end."""
    rows = [*life(11, 91, 1, 100, object_id=1), *life(11, 91, 2, 40, object_id=2)]
    rows += life(11, 91, 3, 7, object_id=3)
    spans = [{"tid": 2, "level": "operator", "name": "use", "span_id": 100 + ts, "ts": ts, "dur": 1} for ts in (12, 90)]  # fmt: skip
    touch = {"device": 0, "launch_id": 0, "space": "tensor", "granularity": 1, "unique_bytes": 1}
    touches = [{**touch, "object_id": one, "span_id": 100 + ts} for one, ts in [(1, 12), (3, 90)]]
    trace = make_trace(memory=rows, span=[*steps(1), *spans], touch=touches)
    report = pasta.run("allocation_check", trace=trace)
    assert problems(report) == {"never used": (1, 40), "released long after its last use": (1, 100)}
    assert report.tables["worst"].filter(cost_ns=79)["cost_bytes"].to_list() == [100]


def test_what_the_allocator_keeps(make_trace):
    rows = [event("allocate", 1, 1, 600, total_allocated=600, total_reserved=2000)]
    report = pasta.run("allocation_check", trace=make_trace(memory=rows))
    assert problems(report)["reserved beyond the peak of live bytes"] == (1, 1400)


CALL = {"tid": 1, "external_id": 0, "name": "cudaLaunchKernel", "dur": 2}
KERNEL = {"device": 0, "name": "k", "external_id": 0}


def test_tiny_kernels_repeated_copies_and_needless_waits(make_trace):
    """Work is pending from 0 to 50 and from 60 to 61: the wait at 55 is for nothing."""
    wait = {"tid": 1, "name": "cudaStreamSynchronize", "correlation": 0}
    calls = [{**CALL, "ts": ts, "correlation": one} for one, ts in [(1, 0), (2, 60), (3, 70), (4, 80)]]  # fmt: skip
    calls += [{**wait, "ts": 10, "dur": 40}, {**wait, "ts": 55, "dur": 3}]
    kernels = [
        {**KERNEL, "ts": 5, "dur": 45, "correlation": 1, "launch_id": 1},
        {**KERNEL, "ts": 60, "dur": 1, "correlation": 2, "launch_id": 2},
    ]
    copy = {"device": 0, "kind": "HtoD", "source_address": 64, "destination_address": 128, "bytes": 1000}  # fmt: skip
    copies = [{**copy, "ts": ts, "dur": 4, "correlation": one} for one, ts in [(3, 71), (4, 81)]]
    copies.append({**copy, "ts": 91, "dur": 4, "correlation": 5, "source_address": None})
    trace = make_trace(call=calls, kernel=kernels, copy=copies)
    report = pasta.run("launch_check", trace=trace, tiny=1)
    assert problems(report, "cost_ns") == {
        "tiny kernel": (1, 1),
        "same copy again": (1, 4),
        "waits for nothing": (1, 3),
    }
    assert problems(report)["same copy again"] == (1, 1000)
    assert problems(pasta.run("launch_check", trace=trace, tiny=100), "cost_ns")["tiny kernel"] == (2, 46)  # fmt: skip


def test_waits_where_no_device_work_was_recorded_are_not_judged(make_trace):
    wait = {"tid": 1, "name": "cudaDeviceSynchronize", "ts": 10, "dur": 5, "correlation": 0}
    report = pasta.run("launch_check", trace=make_trace(call=[wait]))
    assert problems(report, "cost_ns") == {}
