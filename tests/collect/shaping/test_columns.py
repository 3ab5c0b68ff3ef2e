"""Columns of decoded values of any type."""

from __future__ import annotations

import pyarrow as pa

from pasta.collect.losses import Losses
from pasta.collect.shaping.columns import Columns

LARGE = 10**30


def test_ids_that_are_no_ids_are_unknown_or_renumbered():
    losses = Losses("test")
    columns = Columns(losses)
    values = [7, None, -1, "8", LARGE, "text", LARGE, [1], {"a": 1}, 2.0]
    found = columns.ids(values, "id").to_pylist()
    assert [found[row] for row in (0, 1, 2, 3, 7, 8, 9)] == [7, 0, 0, 8, 0, 0, 2]
    assert found[4] == found[6] != found[5]
    assert all(found[row] >> 61 == 1 for row in (4, 5))
    assert {loss.reason: loss.count for loss in losses} == {
        "id that is text or too large: renumbered": 2,
        "id that is a list or an object: read as unknown": 2,
    }


def test_numbers_that_do_not_fit_are_null():
    losses = Losses("test")
    values = [1, None, LARGE, "x", [2], 3.5, "4", True]
    found = Columns(losses).numbers(values, pa.int32(), "size").to_pylist()
    assert found == [1, None, None, None, None, None, 4, 1]
    assert sum(loss.count for loss in losses) == 4
