"""`cut` against counting moment by moment."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.errors import ConfigError
from pasta.pipeline.stages.cut import cut

SCHEMA = {"tid": pl.Int64, "ts": pl.Int64, "dur": pl.Int64, "name": pl.String}
ROWS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, None]),
        st.none() | st.integers(-5, 12),
        st.none() | st.integers(0, 9),
        st.sampled_from("abc"),
    )
)


def frame(rows):
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


@given(ROWS, ROWS)
def test_against_plain_python(rows, others):
    edges = {
        (tid, moment)
        for tid, ts, dur, _ in others
        if ts is not None and dur is not None
        for moment in (ts, ts + dur)
    }
    expected = []
    for tid, ts, dur, name in rows:
        if ts is None or dur is None:
            expected.append((tid, ts, dur, name))
            continue
        inner = sorted(at for group, at in edges if group == tid and ts < at < ts + dur)
        bounds = pairwise([ts, *inner, ts + dur])
        expected += [(tid, begin, end - begin, name) for begin, end in bounds]
    assert cut(frame(rows), frame(others), by=["tid"]).rows() == expected


def test_pieces_of_a_row_and_of_one_that_nothing_cuts():
    rows = frame([(1, 0, 100, "gap"), (2, 10, 5, "other")])
    others = frame([(1, 20, 30, "sample"), (1, 50, 0, "mark"), (1, 90, 40, "late")])
    assert cut(rows, others, by=["tid"]).rows() == [
        (1, 0, 20, "gap"),
        (1, 20, 30, "gap"),
        (1, 50, 40, "gap"),
        (1, 90, 10, "gap"),
        (2, 10, 5, "other"),
    ]


def test_a_missing_column_names_the_input():
    with pytest.raises(ConfigError, match="others: needs column 'dur'"):
        cut(frame([]), frame([]).drop("dur"), by=["tid"])
