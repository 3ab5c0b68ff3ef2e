"""Clocks of ranks are told by the ends of their collectives, or it is said why they cannot be."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.trace_align.offsets import END_SKEW, FEWEST_MEETINGS, Offsets, offsets_of

MS = 1_000_000


def meetings_of(
    ends: list[int],
    *,
    length: int = MS,
    communicator: int = 1,
    first: int = 0,
    counted: bool = False,
    rows: int | None = None,
) -> pl.DataFrame:
    """The meetings of one rank in one communicator, numbered from `first`."""
    return pl.DataFrame(
        {
            "communicator": [communicator] * len(ends),
            "rows": [len(ends) if rows is None else rows] * len(ends),
            "counted": [counted] * len(ends),
            "operation": ["allreduce"] * len(ends),
            "begin": [end - length for end in ends],
            "end": ends,
            "meeting": [communicator * 10**6 + first + place for place in range(len(ends))],
        },
        schema={
            "communicator": pl.UInt64,
            "rows": pl.UInt32,
            "counted": pl.Boolean,
            "operation": pl.String,
            "begin": pl.Int64,
            "end": pl.Int64,
            "meeting": pl.UInt64,
        },
    )


def every(count: int, period: int = 10 * MS) -> list[int]:
    return [1_700_000_000_000_000_000 + place * period for place in range(count)]


def moved(times: list[int], by: int) -> list[int]:
    return [time + by for time in times]


def compared(meetings: dict[int, pl.DataFrame]) -> Offsets:
    return offsets_of(meetings, sorted(meetings))


@given(
    offsets=st.lists(st.integers(-(1 << 61), 1 << 61), min_size=1, max_size=6),
    gaps=st.lists(st.integers(1, 10**10), min_size=FEWEST_MEETINGS, max_size=40),
)
@settings(max_examples=60, deadline=None)
def test_offsets_are_exact_where_ends_coincide(offsets, gaps):
    times = [sum(gaps[:place]) for place in range(1, len(gaps) + 1)]
    given_ = {0: meetings_of(times)}
    given_ |= {rank: meetings_of(moved(times, by)) for rank, by in enumerate(offsets, 1)}
    found = compared(given_)
    assert not found.unknown
    for rank, by in enumerate(offsets, 1):
        one = found.known[rank]
        assert (one.offset, one.residual, one.residual_max, one.drift) == (by, 0, 0, None)
        assert one.shift == (-by if abs(by) > END_SKEW else 0)
        assert one.meetings == len(times)


def test_median_and_residual_of_ends_that_do_not_coincide():
    later = [100_000, 100_000, 100_300, 99_000, 900_000]  # one straggler
    times = every(5)
    theirs = [time + by for time, by in zip(times, later, strict=True)]
    one = compared({0: meetings_of(times), 7: meetings_of(theirs)}).known[7]
    assert one.offset == 100_000
    assert (one.residual, one.residual_p95, one.residual_max) == (300, 800_000, 800_000)
    assert one.shift == 0, "an offset within the residual is not applied"


def test_ranks_are_reached_through_others():
    times = every(8)
    pair = meetings_of(times, communicator=1)
    chained = pl.concat(
        [
            meetings_of(moved(times, 50 * MS), communicator=1),
            meetings_of(moved(times, 53 * MS), communicator=2),
        ]
    )
    last = meetings_of(moved(times, 3 * MS - 7 * MS), communicator=2)
    found = compared({0: pair, 1: chained, 2: last})
    assert found.known[1].offset == 50 * MS
    assert found.known[2].offset == 50 * MS - 57 * MS
    assert found.known[2].compared_with == 1


def test_a_clear_drift_is_told_and_not_corrected():
    times = every(90)
    drifting = [time + 20 * MS + (time - times[0]) // 100_000 for time in times]  # 10 ppm
    one = compared({0: meetings_of(times), 1: meetings_of(drifting)}).known[1]
    assert one.drift == 600 * MS // 100_000  # from the 15th to the 75th of 90
    assert one.drift_ppm == 10.0
    assert one.offset == 20 * MS + 445 * MS // 100_000


def test_scatter_is_no_drift():
    times = every(90)
    scattered = [time + 20 * MS + 3000 * (-1) ** place for place, time in enumerate(times)]
    assert compared({0: meetings_of(times), 1: meetings_of(scattered)}).known[1].drift is None


def test_too_few_meetings_are_refused():
    times = every(5)
    found = compared({0: meetings_of(times[:2]), 1: meetings_of(times)})
    assert found.unknown == {1: "it has 2 collectives in common with rank 0; 3 are needed"}


def test_ranks_without_collectives_are_refused():
    found = offsets_of({0: meetings_of(every(5))}, [0, 3])
    assert found.unknown == {3: "it has no collective that ends at once on all ranks"}


def test_counted_sequences_that_differ_in_number_are_refused():
    times = every(6)
    ours = meetings_of(times, counted=True, rows=9)
    theirs = meetings_of(moved(times, MS), counted=True, rows=8)
    (why,) = compared({0: ours, 1: theirs}).unknown.values()
    assert why.startswith("its collectives are only counted, and it has 8 where rank 0 has 9")
    recorded = meetings_of(times, rows=9), meetings_of(moved(times, MS), rows=8)
    assert compared(dict(enumerate(recorded))).known[1].offset == MS


def test_sequences_of_other_collectives_are_refused():
    times = [0, 10 * MS, 500 * MS, 520 * MS, 900 * MS, 1400 * MS]
    shuffled = [0, 400 * MS, 410 * MS, 800 * MS, 1300 * MS, 1310 * MS]
    (why,) = compared({0: meetings_of(times), 1: meetings_of(shuffled)}).unknown.values()
    assert "would end on one of the two before they begin on the other" in why


def test_a_residual_beyond_the_length_of_collectives_is_refused():
    times = every(9)
    late = [time + 9 * MS * (place % 3) for place, time in enumerate(times)]
    ours, theirs = meetings_of(times), meetings_of(late)
    (why,) = compared({0: ours, 1: theirs}).unknown.values()
    assert why.startswith(
        "6 of its 9 collectives in common with rank 0 would end on one of the two"
    )
