"""Rows are ordered column by column as they are by comparing them."""

from __future__ import annotations

import numpy as np
import pytest

from pasta.pipeline.engines.column_order import by_columns


@pytest.mark.parametrize("count", [1, 2, 3])
def test_rows_are_in_the_order_of_all_columns(count):
    draw = np.random.default_rng(count)
    columns = [draw.integers(0, 4, 500) for _ in range(count)]
    upward = [number != 1 for number in range(count)]

    def order(column, number):
        return np.argsort(column if upward[number] else -column, kind="stable")

    places = by_columns(columns, order, lambda column, places: column[places])
    signed = [column if up else -column for column, up in zip(columns, upward, strict=True)]
    assert np.array_equal(places, np.lexsort(signed[::-1]))
