"""The stage `held_at_peak`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pasta.pipeline.stages.held_at_peak import held_at_peak
from pasta.pipeline.stages.live_totals import live_totals
from tests.pipeline.stages.test_lifetimes import memory


def held(*events):
    found = held_at_peak(live_totals(memory(*events)))
    return found.select("ts", "address", "bytes").rows()


def test_what_lives_at_the_first_peak():
    found = held(
        (1, "allocate", 1, 10),
        (2, "allocate", 2, 5),
        (3, "release", 1, 10),
        (4, "allocate", 1, 40),
        (5, "release", 2, 5),
        (6, "allocate", 3, 5),
    )
    assert found == [(2, 2, 5), (4, 1, 40)]


def test_events_of_one_time_count_in_the_order_of_rows():
    assert held((1, "allocate", 1, 10), (1, "release", 1, 10)) == [(1, 1, 10)]


def test_what_has_no_address_or_lived_before_is_not_told():
    assert held((1, "allocate", None, 10), (2, "allocate", 1, 1)) == [(2, 1, 1)]
    assert held((1, "release", 1, 10), (2, "allocate", 2, 1)) == []


def test_places_have_their_own_peaks():
    found = held(
        (1, "allocate", 1, 10),
        (2, "allocate", 1, 20, {"device": 1}),
        (3, "release", 1, 20, {"device": 1}),
        (4, "allocate", 1, 30, {"pid": 2}),
    )
    assert found == [(1, 1, 10), (2, 1, 20), (4, 1, 30)]


def test_empty_input():
    assert held() == []


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4), st.integers(1, 9)), max_size=20))
def test_what_is_held_makes_up_the_peak(raw):
    """Each address is allocated and released in turn, so that nothing was live before."""
    live, events = {}, []
    for ts, address, size in sorted(raw):
        if address in live:
            events.append((ts, "release", address, live.pop(address)))
        else:
            events.append((ts, "allocate", address, size))
            live[address] = size
    peak = max([0, *live_totals(memory(*events))["live_bytes"]])
    assert sum(size for _, _, size in held(*events)) == peak
