"""`window_sums` sums in the shortest windows that suffice, and sums of parts add up."""

from __future__ import annotations

from collections import defaultdict

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.errors import ConfigError
from pasta.pipeline.stages.window_sums import window_sums
from tests.pipeline.merging import assert_merges

EPOCH = 1_700_000_000_000_000_000
TIMES = st.none() | st.integers(-50, 50) | st.integers(-(10**12), 10**12) | st.integers(EPOCH, EPOCH + 99)  # fmt: skip
ROWS = st.lists(
    st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 1), TIMES, st.none() | st.integers(0, 9))
)  # fmt: skip
SCHEMA = {"trace": pl.String, "stream": pl.UInt64, "ts": pl.Int64, "dur": pl.Int64}
GIVEN = {"by": ["trace", "stream"], "value": "dur", "clock": ["trace"], "most": 4, "time": "ts"}


def frame(rows):
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def expected(rows, most):
    """Return the sums by the definition: windows double until few enough hold all times of a trace."""
    known = [row for row in rows if None not in row[2:]]
    sums = defaultdict(lambda: [0, 0, -1])
    for trace in {row[0] for row in known}:
        times = [row[2] for row in known if row[0] == trace]
        length = 1
        while max(times) // length - min(times) // length >= most:
            length *= 2
        for _, stream, ts, dur in (row for row in known if row[0] == trace):
            cell = sums[trace, stream, ts // length * length, length]
            cell[0] += 1
            cell[1] += dur
            cell[2] = max(cell[2], dur)
    order = sorted(sums, key=lambda key: (key[0], key[1] is not None, *key[1:]))
    return [(*key, *sums[key]) for key in order]


def test_by_hand():
    """Times from 5 to 21 are in 17 windows of 1 ns, 9 of 2, 5 of 4 and 3 of 8."""
    rows = frame([("t", 7, 5, 1), ("t", 7, 7, 2), ("t", 7, 8, 4), ("t", 7, 21, 8), ("t", 0, 9, 16)])
    assert window_sums(rows, **GIVEN).rows() == [
        ("t", 0, 8, 8, 1, 16, 16),
        ("t", 7, 0, 8, 2, 3, 2),
        ("t", 7, 8, 8, 1, 4, 4),
        ("t", 7, 16, 8, 1, 8, 8),
    ]


@given(ROWS, st.integers(2, 9))
def test_against_the_definition(rows, most):
    assert window_sums(frame(rows), **{**GIVEN, "most": most}).rows() == expected(rows, most)


@given(ROWS, st.data())
def test_merge_law(rows, data):
    assert_merges("window_sums", frame(rows), GIVEN, data)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"most": 1}, "must be 2 or more"), ({"clock": ["rank"]}, "'rank' is not in by")],
)
def test_mistakes(wrong, message):
    with pytest.raises(ConfigError, match=message):
        window_sums(frame([]), **{**GIVEN, **wrong})
