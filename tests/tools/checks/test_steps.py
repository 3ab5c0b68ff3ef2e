"""Steps that neither see a kernel begin nor launch one."""

from __future__ import annotations

from pasta.tools.checks.steps import step_warnings


def steps(count: int) -> list[dict]:
    return [
        {"ts": 1000 * place, "dur": 900, "level": "step", "name": f"ProfilerStep#{place}"}
        for place in range(count)
    ]


def test_30_of_32_steps_without_kernels(make_trace):
    """One malformed kernel lasts through all the steps, but begins in one."""
    kernel = [{"ts": 50, "dur": 10**9}, {"ts": 31_000, "dur": 5}]
    (said,) = step_warnings(make_trace(span=steps(32), kernel=kernel))
    assert said.startswith("30 of 32 steps (93.8 %) have no kernels")
    assert "(first: rank 0, 'ProfilerStep#1' at ts 1000, 900 ns long)" in said


def test_a_step_whose_kernels_begin_later_has_them(make_trace):
    calls = [{"ts": ts, "dur": 1, "correlation": number} for number, ts in ((1, 10), (2, 1010))]
    late = [{"ts": 5000, "dur": 1, "correlation": number} for number in (1, 2)]
    early = [{"ts": 2100, "dur": 1}]
    assert step_warnings(make_trace(span=steps(3), kernel=[*late, *early], call=calls)) == []
    (said,) = step_warnings(make_trace("u", span=steps(3), kernel=late, call=calls))
    assert said.startswith("1 of 3 steps (33.3 %)")
    assert "'ProfilerStep#2'" in said


def test_the_end_of_a_step_is_no_part_of_it(make_trace):
    kernel = [{"ts": 0, "dur": 1}, {"ts": 1900, "dur": 1}]
    (said,) = step_warnings(make_trace(span=steps(2), kernel=kernel))
    assert "'ProfilerStep#1'" in said


def test_processes_without_any_kernel_have_no_empty_steps(make_trace):
    other = [{**step, "pid": 9} for step in steps(2)]
    kernel = [{"ts": 1, "dur": 1}, {"ts": 1001, "dur": 1}]
    assert step_warnings(make_trace(span=[*steps(2), *other], kernel=kernel)) == []
    assert step_warnings(make_trace("u", span=steps(2))) == []
