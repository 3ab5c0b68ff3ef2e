"""Times that are whole, or of a scale that no kernel has."""

from __future__ import annotations

import pytest

from pasta.tools.checks.times import FEWEST, time_warnings


def kernels(count: int, unit: int, dur: int) -> list[dict]:
    return [{"ts": unit * place, "dur": dur * (place % 4 > 0)} for place in range(count)]


@pytest.mark.parametrize(("unit", "name"), [(1000, "microseconds"), (1_000_000, "milliseconds")])
def test_whole_units_are_told_with_what_lasts_nothing(make_trace, unit, name):
    (said,) = time_warnings(make_trace(kernel=kernels(2000, unit, unit)))
    assert said.startswith(
        f"all times are whole {name}, which is how exact durations are; 500 of 2,000"
    )


def test_one_exact_time_is_enough(make_trace):
    exact = [{"ts": 1, "dur": 1000}]
    assert time_warnings(make_trace(kernel=kernels(2000, 1000, 1000), call=exact)) == []
    assert time_warnings(make_trace("u", kernel=kernels(FEWEST - 1, 1000, 1000))) == []


def test_nothing_is_said_without_a_timeline(make_trace):
    assert time_warnings(make_trace(memory=[{"ts": 1000}])) == []


def test_kernels_of_a_wrong_scale(make_trace):
    (short,) = time_warnings(make_trace(kernel=kernels(400, 77, 13)))
    assert short.startswith("300 of 400 kernels (75.0 %) take less than 100 ns")
    (long,) = time_warnings(make_trace("u", kernel=kernels(400, 77, 2_000_000_001)))
    assert long.startswith("300 of 400 kernels (75.0 %) take a second or more")
    assert time_warnings(make_trace("v", kernel=kernels(400, 77, 3001))) == []
