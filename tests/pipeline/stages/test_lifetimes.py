"""The stage `lifetimes`."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.errors import ConfigError
from pasta.pipeline.stages.lifetimes import lifetimes
from pasta.trace import empty_table

SCHEMA = empty_table("memory").schema


def memory(*events):
    """Rows of `memory` from (ts, event, address, bytes) and other columns as a mapping."""
    rows = [
        {"rank": 0, "pid": 1, "tid": 7, "device": 0, "space": "device", "object_id": 0, **more}
        | {"ts": ts, "event": event, "address": address, "bytes": size}
        for ts, event, address, size, more in ((*e, {})[:5] for e in events)
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


def brief(found, *columns):
    return found.select(columns or ("address", "bytes", "object_id", "ts", "end")).rows()


def test_an_address_is_used_again():
    found = lifetimes(
        memory(
            (10, "allocate", 0x100, 64),
            (20, "release", 0x100, 64),
            (30, "allocate", 0x100, 32),
            (35, "allocate", 0x200, 8),
            (40, "release", 0x100, 32),
        )
    )
    assert brief(found) == [
        (0x100, 64, 1, 10, 20),
        (0x100, 32, 2, 30, 40),
        (0x200, 8, 3, 35, None),
    ]
    assert found["dur"].to_list() == [10, 10, None]
    assert found["open"].to_list() == [False, False, True]
    assert not found["began_before"].any()
    assert not found["replaced"].any()
    assert found["tid"].to_list() == [7, 7, 7]


def test_objects_without_addresses_live_until_they_are_released():
    found = lifetimes(
        memory(
            (10, "allocate", None, 64, {"object_id": 5}),
            (20, "allocate", None, 32, {"object_id": 6}),
            (30, "release", None, 64, {"object_id": 5}),
            (40, "release", None, 32, {"object_id": 6}),
            (50, "allocate", None, 8, {"object_id": 0}),
        )
    )
    assert brief(found) == [(None, 64, 5, 10, 30), (None, 32, 6, 20, 40)]
    assert not found["replaced"].any()


def test_a_release_without_allocation_began_before_the_trace():
    found = lifetimes(memory((5, "allocate", 1, 4), (9, "release", 2, 16), (7, "release", 3, 8)))
    assert brief(found, "address", "bytes", "ts", "end", "dur", "began_before") == [
        (3, 8, None, 7, None, True),
        (2, 16, None, 9, None, True),
        (1, 4, 5, None, None, False),
    ]


def test_an_allocation_at_a_live_address_closes_the_earlier_one():
    found = lifetimes(memory((1, "allocate", 9, 4), (3, "allocate", 9, 4), (8, "release", 9, 4)))
    assert brief(found, "ts", "end", "replaced", "open") == [
        (1, 3, True, False),
        (3, 8, False, False),
    ]


def test_events_of_one_time_count_in_the_order_of_rows():
    found = lifetimes(
        memory(
            (4, "allocate", 9, 1),
            (6, "release", 9, 1),
            (6, "allocate", 9, 2),
            (6, "release", 9, 2),
        )
    )
    assert brief(found, "bytes", "ts", "end") == [(1, 4, 6), (2, 6, 6)]


def test_spaces_devices_and_processes_do_not_mix():
    found = lifetimes(
        memory(
            (1, "allocate", 9, 4, {"space": "tensor"}),
            (2, "release", 9, 4, {"space": "pool"}),
            (3, "release", 9, 4, {"space": "tensor", "device": 1}),
            (4, "release", 9, 4, {"space": "tensor", "pid": 2}),
            (5, "release", 9, 4, {"space": "tensor", "rank": 1}),
        )
    )
    assert found["began_before"].sum() == 4
    assert found["open"].sum() == 1


def test_recorded_ids_are_kept_and_new_ones_avoid_them():
    found = lifetimes(
        memory(
            (1, "allocate", 1, 4),
            (2, "allocate", 2, 4, {"object_id": 2}),
            (3, "allocate", 3, 4),
            (4, "release", 3, 4, {"object_id": 1}),
            (5, "allocate", 4, 4),
            (6, "allocate", 5, 4, {"space": "tensor"}),
        )
    )
    assert brief(found, "address", "object_id") == [(1, 3), (2, 2), (3, 1), (4, 4), (5, 1)]


def test_traces_analysed_together_stay_apart():
    rows = memory((1, "allocate", 9, 4), (2, "release", 9, 4))
    rows = rows.with_columns(trace=pl.Series(["a", "b"]))
    found = lifetimes(rows)
    assert brief(found, "trace", "object_id", "open") == [("b", 1, False), ("a", 1, True)]


def test_empty_input_has_the_same_columns():
    full = lifetimes(memory((1, "allocate", 9, 4)))
    assert lifetimes(memory()).schema == full.schema
    assert full.schema["object_id"] == pl.UInt64


def test_missing_columns_are_named():
    with pytest.raises(ConfigError, match="needs column 'address'"):
        lifetimes(memory().drop("address"))


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.integers(1, 3)), max_size=30))
def test_equals_walking_through_the_events(raw):
    events = [(ts, "allocate" if a else "release", address, 1) for ts, a, address in raw]
    live, expected = {}, []
    for ts, event, address, _ in sorted(events, key=lambda e: e[0]):
        if address in live:
            expected.append((address, live.pop(address), ts, event == "allocate"))
        elif event == "release":
            expected.append((address, None, ts, False))
        if event == "allocate":
            live[address] = ts
    expected += [(address, ts, None, False) for address, ts in live.items()]
    found = brief(lifetimes(memory(*events)), "address", "ts", "end", "replaced")
    assert sorted(found, key=str) == sorted(expected, key=str)
