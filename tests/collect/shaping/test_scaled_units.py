"""Numbers times a factor, exactly."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.collect.shaping.units import scaled

FACTORS = st.sampled_from([1, 1000, 10**6, 10**9, 1 << 30])


@pytest.mark.parametrize(
    ("values", "factor", "expected"),
    [
        ([1, None, -3], 1000, [1000, None, -3000]),
        (["7", None, "-8"], 10, [70, None, -80]),
        (["1672924881307000.123", "1e3", " 2 ", "x", ""], 1000, [1672924881307000123, 10**6, 2000, None, None]),
        ([1.5, -0.25, float("nan"), float("inf"), None], 1000, [1500, -250, None, None, None]),
        ([Decimal("1.0000000005")], 10**9, [1000000000]),
        ([True, False], 1, [1, 0]),
        (["+1", "2"], 1, [1, 2]),
        ([1 << 62], 4, [None]),
        (["1e999999999"], 1, [None]),
        ([1e300], 1000, [None]),
    ],
)  # fmt: skip
def test_scaled(values: list[Any], factor: int, expected: list[int | None]) -> None:
    assert scaled(pa.array(values), factor).to_pylist() == expected


def test_unsigned_numbers_that_do_not_fit_are_null() -> None:
    assert scaled(pa.array([1 << 63, 5], pa.uint64()), 1).to_pylist() == [None, 5]


@given(st.lists(st.integers(-(1 << 62), 1 << 62), max_size=10), FACTORS)
def test_integers_and_their_texts_are_alike(values: list[int], factor: int) -> None:
    expected = [v * factor if abs(v * factor) < 1 << 63 else None for v in values]
    assert scaled(pa.array(values, pa.int64()), factor).to_pylist() == expected
    assert scaled(pa.array(map(str, values), pa.string()), factor).to_pylist() == expected
