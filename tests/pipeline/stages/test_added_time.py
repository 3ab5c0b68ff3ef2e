"""`added_time` adds up to the union, moment by moment the first interval's."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from pasta.pipeline.stages.added_time import added_time
from pasta.pipeline.stages.busy import busy

ROW = st.fixed_dictionaries(
    {
        "device": st.integers(0, 1),
        "ts": st.none() | st.integers(0, 20),
        "dur": st.none() | st.integers(0, 9),
    }
)
SCHEMA = {"device": pl.Int64, "ts": pl.Int64, "dur": pl.Int64}


def test_a_moment_counts_for_the_interval_that_started_first():
    rows = pl.DataFrame(
        {"device": [0, 0, 0, 0, 1, 0], "ts": [0, 5, 2, 1, 3, None], "dur": [10, 10, 6, 11, 4, 7]}
    )
    found = added_time(rows, by=["device"], column="added")
    assert found["added"].to_list() == [10, 3, 0, 2, 4, 0]


def test_of_those_that_start_together_the_first_row_counts():
    rows = pl.DataFrame({"device": [0, 0], "ts": [4, 4], "dur": [3, 5]})
    assert added_time(rows, by=["device"], column="added")["added"].to_list() == [3, 2]


def owners(rows):
    """Return how many moments belong to each row: of those that last then, to the first to start."""
    order = sorted(range(len(rows)), key=lambda row: rows[row]["ts"] or 0)
    taken, counts = set(), [0] * len(rows)
    for row in order:
        device, ts, dur = (rows[row][name] for name in ("device", "ts", "dur"))
        if ts is None or dur is None:
            continue
        moments = {(device, moment) for moment in range(ts, ts + dur)} - taken
        counts[row] = len(moments)
        taken |= moments
    return counts


@given(st.lists(ROW, max_size=20))
def test_random_intervals(rows):
    table = pl.DataFrame(rows, schema=SCHEMA)
    found = added_time(table, by=["device"], column="added")["added"]
    assert found.to_list() == owners(rows)
    assert found.sum() == busy(table, by=["device"], start="ts", duration="dur")["dur"].sum()
