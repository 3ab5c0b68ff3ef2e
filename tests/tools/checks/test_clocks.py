"""Clocks that disagree are told from the ends of collectives."""

from __future__ import annotations

import pytest

from pasta.tools.checks.clocks import clock_warnings


def collectives(rank: int, ahead: int) -> list[dict]:
    return [
        {
            "rank": rank, "communicator": "w", "sequence": place, "sequence_source": "recorded",
            "operation": "allgather", "ts": 10**9 + 10**7 * place + ahead, "dur": 10**6,
        }
        for place in range(5)
    ]  # fmt: skip


def test_the_furthest_clock_is_named(make_trace):
    rows = collectives(0, 0) + collectives(1, 400_000) + collectives(2, -3_000_000)
    (said,) = clock_warnings(make_trace(collective=rows))
    assert said == (
        "the clocks of ranks differ by up to 3.40 ms (2 of 3 ranks (66.7 %); rank 2 is 3.00 ms"
        " behind rank 0, give or take 0 ns): pasta trace align"
    )


@pytest.mark.parametrize("ahead", [0, 30_000])
def test_nothing_is_said_of_clocks_that_agree(make_trace, ahead):
    assert clock_warnings(make_trace(collective=collectives(0, 0) + collectives(1, ahead))) == []
    assert clock_warnings(make_trace("u", kernel=[{"ts": 1}])) == []
