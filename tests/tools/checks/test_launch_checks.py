"""Kernels without a launch are counted and the first is named."""

from __future__ import annotations

import pytest

from pasta.tools.checks import launches
from pasta.tools.checks.launches import launch_warnings


def kernels(*correlations: int | None, rank: int = 0) -> list[dict]:
    return [
        {"rank": rank, "ts": 10 * place, "dur": 5, "correlation": number, "name": f"k{place}"}
        for place, number in enumerate(correlations)
    ]


def calls(*correlations: int, rank: int = 0) -> list[dict]:
    return [{"rank": rank, "ts": 0, "correlation": number} for number in correlations]


@pytest.mark.parametrize("piece", [1, 3, 1 << 20])
def test_unknown_and_absent_correlations_have_no_launch(make_trace, monkeypatch, piece):
    monkeypatch.setattr(launches, "PIECE_CALLS", piece)
    given = kernels(1, 7, 0, None, 2, 2)
    (said,) = launch_warnings(make_trace(kernel=given, call=calls(0, 1, 2, 3)))
    assert said.startswith("3 of 6 kernels (50.0 %) have no launch among the calls")
    assert said.endswith("(first: rank 0, 'k1' at ts 10)")


def test_a_correlation_counts_only_in_its_own_process(make_trace):
    other = [{"pid": 2, "ts": 0, "correlation": 1}]
    (said,) = launch_warnings(make_trace(kernel=kernels(1), call=other))
    assert said.startswith("1 of 1 kernels (100.0 %) have no launch")


def test_ranks_without_any_call_are_said_to_have_none(make_trace):
    given = kernels(1, 2) + kernels(1, 2, 3, rank=4)
    (said,) = launch_warnings(make_trace(kernel=given, call=calls(1, 2)))
    assert said.startswith("3 of 5 kernels (60.0 %) of 1 ranks come without any call or copy")
    assert "(first: rank 4, 'k0' at ts 0)" in said
    copied = make_trace("u", kernel=kernels(0), copy=[{"ts": 1}])
    assert launch_warnings(copied)[0].startswith("1 of 1 kernels (100.0 %) come without any call:")


def test_nothing_is_said_where_every_kernel_has_its_launch(make_trace):
    assert launch_warnings(make_trace(kernel=kernels(5, 5, 6), call=calls(5, 6))) == []
    assert launch_warnings(make_trace("u", call=calls(5))) == []
