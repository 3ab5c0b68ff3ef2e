"""Intervals on lanes nest, in one call or several, and end in order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pasta.exports.lanes import Lanes
from pasta.exports.timeline import FOREVER

INTERVALS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 12), st.integers(0, 8) | st.just(FOREVER)),
    max_size=25,
)


def sorted_intervals(rows):
    found = [(track, ts, FOREVER if dur == FOREVER else ts + dur) for track, ts, dur in rows]
    return sorted(found, key=lambda row: (row[1], -row[2]))


def greedy(intervals):
    """Return the place among the lanes of its track of each interval, by comparing it with all before."""
    places = []
    for row, (track, start, end) in enumerate(intervals):
        place = 0
        while any(
            places[other] == place and intervals[other][0] == track
            and start < intervals[other][2] < end
            for other in range(row)
        ):  # fmt: skip
            place += 1
        places.append(place)
    return places


def laid(intervals, pieces):
    lanes, begins, ends = Lanes(), [], []
    for piece in pieces:
        columns = [
            np.array(c, np.int64) for c in zip(*(intervals[row] for row in piece), strict=True)
        ]
        begun, ended = lanes.lay(*columns, np.array(piece))
        begins += zip(*begun[:3], piece, strict=True)
        ends += zip(*ended, strict=True)
    ends += zip(*lanes.ended(FOREVER - 1), strict=True)
    return lanes, begins, ends


@given(rows=INTERVALS, cut=st.integers(0, 25))
def test_a_stack_of_each_lane_gives_every_interval_its_own_end(rows, cut):
    intervals = sorted_intervals(rows)
    starts = [start for _, start, _ in intervals]
    while 0 < cut < len(starts) and starts[cut - 1] == starts[cut]:
        cut += 1
    numbers = list(range(len(intervals)))
    lanes, begins, ends = laid(intervals, [p for p in (numbers[:cut], numbers[cut:]) if p])
    assert [lanes.lanes[lane].place for *_, lane, _ in begins] == greedy(intervals)
    events = [(t, turn, lane, "B", row) for t, turn, lane, row in begins]
    events += [(t, turn, lane, "E", row) for t, turn, lane, row in ends]
    stacks = {}
    for time, _, lane, kind, row in sorted(events):
        stack = stacks.setdefault(lane, [])
        if kind == "B":
            assert lanes.lanes[lane].track == intervals[row][0]
            stack.append(row)
        else:
            assert stack.pop() == row
            assert intervals[row][2] == time
    left = sorted(row for stack in stacks.values() for row in stack)
    assert left == [row for row in numbers if intervals[row][2] == FOREVER]
