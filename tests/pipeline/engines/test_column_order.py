"""Rows are ordered column by column as they are by comparing them."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from pasta.pipeline.engines.column_order import by_columns, mend


class Column:
    """A stand-in for libcudf's, of one value for each row."""

    def __init__(self, values, nulls=0):
        self.values, self.nulls = values, nulls

    def type(self):
        return self.values.dtype

    def null_count(self):
        return self.nulls


class Table:
    def __init__(self, columns):
        self.held = columns

    def columns(self):
        return self.held


@pytest.fixture
def libcudf(monkeypatch):
    """A stand-in that is mended; `sorted` has how many columns each sort compared."""

    def compared(source_table, column_order, _null_precedence, **_where):
        columns = source_table.columns()
        made.sorted.append(len(columns))
        signed = [column.values * sign for column, sign in zip(columns, column_order, strict=True)]
        return Column(np.lexsort(signed[::-1]))

    def gather(table, places, _policy, **_where):
        return Table([Column(column.values[places.values]) for column in table.columns()])

    made = SimpleNamespace(
        Table=Table,
        sorted=[],
        sorting=SimpleNamespace(stable_sorted_order=compared),
        copying=SimpleNamespace(
            gather=gather, OutOfBoundsPolicy=SimpleNamespace(DONT_CHECK="known")
        ),
        traits=SimpleNamespace(is_integral=lambda kind: kind.kind in "iu"),
    )
    monkeypatch.setitem(sys.modules, "pylibcudf", made)
    mend.__wrapped__()
    return made


@pytest.mark.parametrize(
    ("kind", "nulls", "sorts"), [(int, 0, [1, 1, 1]), (float, 0, [3]), (int, 1, [3])]
)
def test_integers_without_nulls_are_ordered_one_by_one(libcudf, kind, nulls, sorts):
    draw = np.random.default_rng(0)
    columns = [Column(draw.integers(0, 4, 500).astype(kind), nulls) for _ in range(3)]
    signs = [1, -1, 1]
    found = libcudf.sorting.stable_sorted_order(Table(columns), signs, ["before"] * 3, stream="s")
    signed = [column.values * sign for column, sign in zip(columns, signs, strict=True)]
    assert np.array_equal(found.values, np.lexsort(signed[::-1]))
    assert libcudf.sorted == sorts


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
