from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from pasta.collect.live_tables import combined, ended_spans, processes, running_totals

SPANS = {"pid": pl.Int64, "ts": pl.Int64, "dur": pl.Int64, "span_id": pl.UInt64}


def events(*rows: tuple[int, int, str, int, int | None]) -> pl.DataFrame:
    """Events as (process, device, space, bytes, total); negative bytes are released."""
    return pl.DataFrame(
        {
            "pid": [pid for pid, _, _, _, _ in rows],
            "device": pl.Series([device for _, device, _, _, _ in rows], dtype=pl.Int32),
            "space": [space for _, _, space, _, _ in rows],
            "event": ["allocate" if size > 0 else "release" for _, _, _, size, _ in rows],
            "bytes": [abs(size) for _, _, _, size, _ in rows],
            "total_allocated": pl.Series([total for *_, total in rows], dtype=pl.Int64),
        }
    )


def test_totals_go_on_from_slice_to_slice_by_process_device_and_space():
    rows = events(
        (1, -1, "tensor", 10, None),
        (1, 0, "tensor", 7, None),
        (1, -1, "tensor", -10, None),
        (1, -1, "tensor", 5, None),
        (1, 0, "tensor", -7, None),
        (2, -1, "tensor", 3, None),
        (1, -1, "pool", 4, None),
        (1, -1, "tensor", 1, None),
    )
    fill = running_totals()
    totals = pl.concat([fill(rows[:2]), fill(rows[2:5]), fill(rows[5:])])["total_allocated"]
    assert totals.to_list() == [10, 7, 0, 5, 0, 3, 4, 6]


def test_totals_that_are_known_stay():
    rows = events((1, 0, "tensor", 10, 100), (1, 0, "tensor", 7, None))
    assert running_totals()(rows)["total_allocated"].to_list() == [100, 17]


spans = st.lists(
    st.tuples(st.integers(1, 2), st.integers(0, 3), st.none() | st.integers(0, 5)), max_size=12
)


@given(spans)
def test_of_a_span_that_ended_the_open_row_goes(rows):
    """Ids tell spans apart in a process; 0 is unknown, and all such rows stay."""
    given_rows = [(pid, 10 * span_id, dur, span_id) for pid, span_id, dur in rows]
    found = ended_spans(pl.DataFrame(given_rows, SPANS, orient="row"))
    ended = {(pid, span_id) for pid, span_id, dur in rows if dur is not None}
    expected, open_ones = [], set()
    for row in given_rows:
        pid, _, dur, span_id = row
        if dur is None and span_id > 0:
            if (pid, span_id) in ended or (pid, span_id) in open_ones:
                continue
            open_ones.add((pid, span_id))
        expected.append(row)
    key = str
    assert sorted(found.rows(), key=key) == sorted(expected, key=key)
    assert found["ts"].is_sorted()


def test_the_last_known_value_of_each_column_is_kept():
    rows = pl.DataFrame(
        {"pid": [1, 2, 1], "tid": [7, 7, 7], "name": ["a", None, None], "started": [None, 5, 9]}
    )
    found = combined(["pid", "tid"])(rows)
    assert found.columns == rows.columns
    assert found.rows() == [(1, 7, "a", 9), (2, 7, None, 5)]


def test_ends_and_exit_codes_are_filled_where_they_are_known():
    rows = pl.DataFrame(
        {
            "pid": pl.Series([1, 2, 3], dtype=pl.Int64),
            "ended": pl.Series([None, 40, None], dtype=pl.Int64),
            "exit_code": pl.Series([None, None, None], dtype=pl.Int32),
        }
    )
    found = processes({1: 10, 2: 20}, {1: -9})(rows)
    assert found.rows() == [(1, 10, -9), (2, 40, None), (3, None, None)]
    assert processes({}, {})(rows).rows() == rows.rows()
