"""The stage `live_totals`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pasta.pipeline.stages.live_totals import live_totals
from tests.pipeline.stages.test_lifetimes import memory


def brief(found):
    return found.select("live_bytes", "before_bytes").rows()


def test_sums_in_order_of_time_need_no_addresses():
    rows = memory((30, "release", None, 8), (10, "allocate", None, 8), (20, "allocate", None, 4))
    assert brief(live_totals(rows)) == [(4, 0), (8, 0), (12, 0)]


def test_what_is_released_first_was_live_before():
    rows = memory((1, "allocate", 5, 10), (2, "release", 7, 100), (3, "allocate", 8, 1))
    assert brief(live_totals(rows)) == [(100, 90), (0, 90), (1, 90)]


def test_recorded_totals_are_taken():
    rows = memory(
        (1, "allocate", 5, 10, {"total_allocated": 1_010}),
        (2, "release", 5, 10, {"total_allocated": 1_000}),
    )
    assert brief(live_totals(rows)) == [(1_010, 1_000), (1_000, 1_000)]


def test_processes_devices_and_spaces_are_apart():
    rows = memory(
        (1, "allocate", 1, 1),
        (2, "allocate", 1, 10, {"pid": 2}),
        (3, "allocate", 1, 100, {"device": 1}),
        (4, "release", 1, 1_000, {"space": "tensor"}),
        (5, "allocate", 2, 10_000),
    )
    found = brief(live_totals(rows))
    assert found == [(1, 0), (10, 0), (100, 0), (0, 1_000), (10_001, 0)]


def test_rows_without_a_time_do_not_count():
    found = live_totals(memory((None, "allocate", 1, 5), (1, "allocate", 2, 1)))
    assert found.select("address", "live_bytes").rows() == [(2, 1)]


def test_empty_input():
    assert live_totals(memory()).schema == live_totals(memory((1, "allocate", 1, 1))).schema


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.integers(0, 9)), max_size=20))
def test_equals_walking_through_the_events(raw):
    rows = memory(*((ts, "allocate" if up else "release", None, size) for ts, up, size in raw))
    found = live_totals(rows.with_row_index())
    running, walked = 0, []
    for row in rows.with_row_index().sort("ts", maintain_order=True).to_dicts():
        running += row["bytes"] if row["event"] == "allocate" else -row["bytes"]
        walked.append((row["index"], running))
    before = max(0, -min((total for _, total in walked), default=0))
    expected = [(index, total + before) for index, total in sorted(walked)]
    assert found.select("index", "live_bytes").rows() == expected
    assert set(found["before_bytes"]) <= {before}
