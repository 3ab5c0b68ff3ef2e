"""Numbers as ncu prints them, read exactly."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.collect.importers.ncu.numbers import (
    comma_is_the_point,
    instances,
    nanoseconds,
    number,
    triple,
)

SWAPPED = str.maketrans(".,", ",.")
PRINTED = st.one_of(
    st.integers(-(10**15), 10**15).map(lambda n: (Decimal(n), f"{n:,}")),
    st.integers(0, 10**14).map(lambda n: (Decimal(n) / 100, f"{Decimal(n) / 100:,.2f}")),
)


@given(PRINTED)
def test_values_are_those_that_were_printed(printed):
    value, text = printed
    assert number(text) == value
    assert number(text.replace(",", "")) == value
    assert number(text.translate(SWAPPED), comma=True) == value


@given(st.lists(PRINTED, min_size=1))
def test_no_number_of_a_plain_locale_looks_like_one_of_the_other(printed):
    assert not comma_is_the_point(text for _, text in printed)


@given(PRINTED)
def test_the_other_locale_is_known_where_it_shows(printed):
    _, text = printed
    shows = text.count(",") >= 2 or "." in text
    assert comma_is_the_point([text.translate(SWAPPED)]) == shows


@pytest.mark.parametrize(
    "text", ["", "n/a", "No-CC", "0-15", "1,2", "12,34", "1.2.3", "nan", "-", "1e5"]
)
def test_what_is_no_number(text):
    assert number(text) is None


def test_instances_follow_their_sum():
    assert number("1,344 (0x1a0: 1,300; 0x1b0: 44)") == 1344
    assert list(instances("44 (0x1a0: 12; 432: 32)")) == [(0x1A0, 12), (432, 32)]
    assert list(instances("0.5 (16: 0.25; 32: 0.25)")) == [
        (16, Decimal("0.25")),
        (32, Decimal("0.25")),
    ]
    assert list(instances("44")) == []


def test_sizes_and_times():
    assert triple("(64, 2, 1)") == triple("64,2,1") == (64, 2, 1)
    assert triple("n/a") is None
    assert nanoseconds(Decimal("2.85"), "us") == 2850
    assert nanoseconds(Decimal("2.8555"), "us") is None
    assert nanoseconds(Decimal(3), "msecond") == 3_000_000
    assert nanoseconds(Decimal(3), "cycle") is None
