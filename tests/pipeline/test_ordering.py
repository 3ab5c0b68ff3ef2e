"""Rows are sorted as Polars sorts them with nulls last, whatever their columns hold."""

from __future__ import annotations

import itertools
import random

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pasta.pipeline.ordering import nulls_last, sorted_by

VALUES = {
    "whole": (pl.Int64, [None, -(1 << 63), -1, 0, 1, (1 << 63) - 1]),
    "address": (pl.UInt64, [None, 0, 1, (1 << 64) - 1]),
    "amount": (pl.Float64, [None, float("-inf"), -0.0, 0.0, 1.5, float("inf"), float("nan")]),
    "text": (pl.String, [None, "", "a", "a\0", "é", "a long text that is not beside its length"]),
    "kind": (pl.Categorical, [None, "z", "a", ""]),
    "known": (pl.Boolean, [None, False, True]),
}


def drawn(rows: int) -> pl.DataFrame:
    draw = random.Random(rows)
    columns = [
        pl.Series(name, [draw.choice(values) for _ in range(rows)], dtype=kind)
        for name, (kind, values) in VALUES.items()
    ]
    return pl.DataFrame([*columns, pl.Series("place", range(rows))])


@pytest.mark.parametrize("by", [*itertools.permutations(VALUES, 2), ("text",), tuple(VALUES)])
@pytest.mark.parametrize("descending", [False, True])
def test_as_polars_sorts(by, descending):
    rows = drawn(400)
    directions = [descending] + [False] * (len(by) - 1)
    found = nulls_last(rows.lazy(), list(by), directions, stable=True).collect()
    expected = rows.sort(by, descending=directions, nulls_last=True, maintain_order=True)
    assert_frame_equal(found, expected)


def test_rows_without_columns_to_sort_by_stay_as_they_are():
    rows = pl.DataFrame({"lists": [[2], [1]]})
    assert_frame_equal(sorted_by(rows.lazy(), []).collect(), rows)


def test_ties_are_broken_by_all_remaining_columns():
    rows = drawn(400)
    found = sorted_by(rows.lazy(), ["kind"], descending=True).collect()
    names = ["kind", *(name for name in rows.columns if name != "kind")]
    directions = [True] + [False] * (len(names) - 1)
    assert_frame_equal(found, rows.sort(names, descending=directions, nulls_last=True))
