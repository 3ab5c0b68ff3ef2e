"""Innermost spans and self times against looking at every span and ns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.pipeline.kernels import enclosure
from pasta.pipeline.kernels.enclosure import innermost, self_times
from pasta.pipeline.kernels.intervals import Intervals

NEVER = 2**63 - 1
SPANS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(0, 12) | st.just(NEVER)),
    max_size=20,
)
POINTS = st.lists(st.tuples(st.integers(0, 2), st.integers(-2, 50)), max_size=20)


def arrays(rows, width):
    table = np.array(rows, dtype=np.int64).reshape(-1, width)
    return [table[:, column] for column in range(width)]


@given(SPANS, POINTS)
def test_innermost_is_the_last_to_start_of_those_that_last(spans, points):
    groups, starts, lengths = arrays(spans, 3)
    ends = np.where(lengths == NEVER, NEVER, starts + np.minimum(lengths, 100))
    found = innermost(Intervals(groups, starts, ends), *arrays(points, 2)).tolist()
    for (group, time), row in zip(points, found, strict=True):
        lasting = [
            (start, -int(end), i)
            for i, (of, start, end) in enumerate(zip(groups, starts, ends, strict=True))
            if of == group and start <= time < end
        ]
        assert row == (max(lasting)[2] if lasting else -1)


@pytest.mark.parametrize("climbed", [0, 1, 3, 100])
@pytest.mark.parametrize("ends_later", [1, 0], ids=["outer ones end later", "all end at once"])
def test_many_points_after_deep_nests(monkeypatch, climbed, ends_later):
    monkeypatch.setattr(enclosure, "_MOST_CLIMBED", climbed)
    depth, threads = 40, 3
    level = np.tile(np.arange(depth), threads)
    groups = np.repeat(np.arange(threads), depth)
    ends = 200 - ends_later * level
    times = np.tile(np.arange(150, 210), threads)
    asked = np.repeat(np.arange(threads), 60)
    found = innermost(Intervals(groups, level, ends), asked, times)
    for thread, time, row in zip(asked.tolist(), times.tolist(), found.tolist(), strict=True):
        lasting = [i for i in range(len(ends)) if groups[i] == thread and time < ends[i]]
        assert row == (max(lasting) if lasting else -1)


@given(st.data())
def test_self_time_is_what_no_child_covers(data):
    count = data.draw(st.integers(0, 10))
    starts, lengths = (
        np.array(data.draw(st.lists(st.integers(0, 20), min_size=count, max_size=count)), dtype=int)
        for _ in range(2)
    )
    parents = [data.draw(st.integers(-1, row - 1)) if row else -1 for row in range(count)]
    found = self_times(np.array(parents, dtype=int), starts, starts + lengths).tolist()
    moments = [set(range(s, s + n)) for s, n in zip(starts.tolist(), lengths.tolist(), strict=True)]
    for row in range(count):
        children = [moments[child] for child in range(count) if parents[child] == row]
        assert found[row] == len(moments[row] - set().union(*children))
