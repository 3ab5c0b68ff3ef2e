"""Shares and rows as sentences name them."""

from __future__ import annotations

import polars as pl
import pytest

from pasta.tools.checks.words import named, share


@pytest.mark.parametrize(
    ("part", "whole", "said"),
    [
        (0, 4010, "0.0 %"),
        (1, 4010, "under 0.1 %"),
        (4, 4000, "0.1 %"),
        (1, 3, "33.3 %"),
        (4009, 4010, "over 99.9 %"),
        (4010, 4010, "100.0 %"),
    ],
)
def test_a_share_is_neither_rounded_away_nor_made_larger(part, whole, said):
    assert share(part, whole) == said


def test_a_row_without_a_time_is_named_without_one(make_trace):
    trace = make_trace(kernel=[{"name": "k", "ts": None}])
    assert named(trace, "kernel", pl.lit(True)) == "rank 0, 'k'"  # noqa: FBT003 - an expression
