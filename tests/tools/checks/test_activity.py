"""Events far from the others, ranks that fall silent, parts of the run without any event."""

from __future__ import annotations

import polars as pl

from pasta.tools.checks.activity import activity_warnings
from pasta.tools.checks.moments import moments_of
from pasta.trace import Trace

SECOND = 1_000_000_000
YEAR = 365 * 86_400 * SECOND


def said(trace: Trace) -> list[str]:
    counts = [
        trace.scan(table)
        .select(start_ts=pl.col("ts").min(), end_ts=(pl.col("ts") + pl.col("dur")).max())
        .collect()
        for table in trace.tables()
    ]
    return activity_warnings(trace, pl.concat(counts))


def calls(first: int, last: int, *, rank: int = 0, count: int = 400) -> list[dict]:
    step = (last - first) // count
    return [
        {"rank": rank, "ts": first + place * step, "dur": step // 2, "name": f"c{place}"}
        for place in range(count)
    ]


def test_an_event_years_away_is_named_and_does_not_count_for_the_rest(make_trace):
    far = {"ts": 3 * YEAR, "dur": 5, "name": "lost"}
    (one,) = said(make_trace(call=calls(0, SECOND), kernel=[far]))
    assert one.startswith(
        "1 of 401 events (0.2 %) lie 26280.00 h after all others, which last 998.75 ms"
    )
    assert one.endswith("(first: kernel of rank 0, 'lost' at ts 94608000000000000)")


def test_events_that_begin_or_end_long_before_or_after(make_trace):
    before = {"ts": 7, "dur": 5, "name": "zero"}
    ends_late = {"ts": YEAR, "dur": YEAR, "name": "endless", "level": "operator"}
    shifted = calls(YEAR, YEAR + SECOND)
    first, second = said(make_trace(call=[before, *shifted], span=[ends_late]))
    assert "before all others" in first or "before all others" in second
    assert any("call of rank 0, 'zero' at ts 7" in one for one in (first, second))
    assert any(f"span of rank 0, 'endless' at ts {YEAR}" in one for one in (first, second))


def test_a_rank_that_ends_early_and_one_that_begins_late(make_trace):
    rows = (
        calls(0, 10 * SECOND)
        + calls(0, 6 * SECOND, rank=1)
        + calls(3 * SECOND, 10 * SECOND, rank=2)
    )
    late, early = said(make_trace(call=rows))
    assert late.startswith(
        "1 of 3 ranks (33.3 %) begin late: rank 2 has no event in the first 3.00 s"
    )
    assert early.startswith("1 of 3 ranks (33.3 %) end early: rank 1 has no event in the last 4.0")


def test_a_part_without_data_is_exact(make_trace):
    rows = [*calls(0, 3 * SECOND), {"ts": 7 * SECOND + 1, "dur": 3 * SECOND, "name": "last"}]
    enclosing = {"ts": 0, "dur": 10 * SECOND, "name": "main", "level": "function"}
    (one,) = said(make_trace(call=rows, span=[enclosing]))
    last = max(row["ts"] + row["dur"] for row in rows[:-1])
    assert one.startswith(
        "there are parts of the run without any event, the longest 4.00 s (40.0 %)"
    )
    assert one.endswith(f"on rank 0 from ts {last} on")


def test_a_long_kernel_is_no_gap(make_trace):
    rows = calls(0, 3 * SECOND) + calls(7 * SECOND, 10 * SECOND)
    kernel = {"ts": SECOND, "dur": 8 * SECOND, "name": "long"}
    assert said(make_trace(call=rows, kernel=[kernel])) == []


def test_nothing_is_said_of_even_activity(make_trace):
    even = [row for rank in range(4) for row in calls(0, SECOND, rank=rank)]
    assert said(make_trace(call=even)) == []
    assert said(make_trace("u", call=[{"ts": 5, "dur": 0}])) == []
    assert activity_warnings(make_trace("v", frame=[{}]), pl.DataFrame({"start_ts": [None]})) == []


def test_moments_at_the_edges_of_a_trace(make_trace):
    trace = make_trace(call=[{"ts": 3, "dur": 4}, {"ts": 20, "dur": 9}])
    (moments,) = moments_of(trace, 3, 29).values()
    assert moments.extent == (3, 29)
    assert moments.longest_gap() == (7, 20)
    assert moments.rows == 2
