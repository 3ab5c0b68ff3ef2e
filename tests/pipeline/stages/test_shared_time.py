"""`shared_time` against counting moment by moment."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.errors import ConfigError
from pasta.pipeline.stages.shared_time import shared_time

SCHEMA = {"device": pl.Int32, "ts": pl.Int64, "dur": pl.Int64}
ROWS = st.lists(st.tuples(st.sampled_from([0, 1, None]), st.integers(-5, 12), st.integers(0, 6)))


def frame(rows):
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def covers(row, device, moment):
    return row[0] == device and row[1] <= moment < row[1] + row[2]


@given(ROWS, ROWS, st.integers(1, 3))
def test_against_every_moment(rows, others, at_least):
    expected = [
        sum(
            sum(covers(other, device, moment) for other in others) >= at_least
            for moment in range(ts, ts + dur)
        )
        for device, ts, dur in rows
    ]
    given_ = {"by": ["device"], "column": "beside", "at_least": at_least}
    found = shared_time(frame(rows), frame(others), **given_)
    assert found.drop("beside").equals(frame(rows))
    assert found["beside"].to_list() == expected


def test_a_row_is_not_beside_itself():
    """Of 0 to 10 and 4 to 6 and 5 to 20, the first shares 4 to 10, the second all, the third 5 to 10."""
    rows = frame([(0, 0, 10), (0, 4, 2), (0, 5, 15)])
    found = shared_time(rows, rows, by=[], column="beside", at_least=2)
    assert found["beside"].to_list() == [6, 2, 5]


def test_what_has_no_duration_does_not_count():
    others = pl.DataFrame([(0, 1, None), (0, None, 5)], schema=SCHEMA, orient="row")
    rows = frame([(0, 0, 10)])
    assert shared_time(rows, others, by=["device"], column="beside")["beside"].to_list() == [0]
    with pytest.raises(ConfigError, match="at_least: must be 1 or more"):
        shared_time(rows, rows, by=[], column="beside", at_least=0)
