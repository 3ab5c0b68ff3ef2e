"""Microsecond texts to nanoseconds, against exact decimal arithmetic."""

from decimal import ROUND_HALF_EVEN, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.collect.shaping.decimal_time import LIMIT, nanoseconds

PLAIN = st.tuples(st.integers(0, 2**61 // 1000), st.text("0123456789", max_size=3)).map(
    lambda parts: f"{parts[0]}.{parts[1]}" if parts[1] else str(parts[0])
)
ODD = st.sampled_from(["-1", "-0.25", "1e3", "1.23456", "87412.86299999999", '"77.5"', "0.0005"])


def exactly(text):
    value = Decimal(text.strip('"')) * 1000
    return int(value.to_integral_value(ROUND_HALF_EVEN))


@given(st.lists(PLAIN | ODD, max_size=30))
def test_every_number_is_exact(texts):
    values, valid = nanoseconds([text.encode() for text in texts])
    expected = [exactly(text) for text in texts]
    believed = [abs(value) < LIMIT for value in expected]
    assert valid.tolist() == believed
    kept = [value for value, good in zip(values.tolist(), believed, strict=True) if good]
    assert kept == [value for value in expected if abs(value) < LIMIT]


def test_nanoseconds_beyond_what_a_float_holds():
    values, valid = nanoseconds([b"1672924881307000.123", b"1672924881307000.124"])
    assert values.tolist() == [1672924881307000123, 1672924881307000124]
    assert valid.all()


@pytest.mark.parametrize(
    "text",
    ["null", "inf", "NaN", "", "abc", "1.2.3", "9999999999999999", "1e40", "1e999999999", "[1]"],
)
def test_what_is_no_believable_number_is_invalid(text):
    values, valid = nanoseconds([b"5", text.encode(), b"6.001"])
    assert valid.tolist() == [True, False, True]
    assert values[[0, 2]].tolist() == [5000, 6001]
