"""Ids of rows against a plain loop."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pasta.collect.losses import Losses
from pasta.collect.shaping.own_ids import OwnIds

AGAIN = "row with the id of another"
LARGE = 1 << 40
IDS = st.none() | st.sampled_from([0, 1, 2, 3, 5, 3000, LARGE, LARGE + 1])


@given(st.lists(st.lists(IDS, min_size=1, max_size=6), max_size=5))
def test_no_two_rows_are_alike(batches: list[list[int | None]]) -> None:
    losses = Losses("test")
    ids = OwnIds(losses, AGAIN)
    found: list[int] = []
    told: list[int | None] = []
    for batch in batches:
        found += ids.of(pa.array(batch, pa.uint64())).to_pylist()
        told += batch
    assert len(set(found)) == len(found)
    assert 0 not in found
    met: set[int] = set()
    missing = repeated = 0
    for wanted, given_id in zip(told, found, strict=True):
        missing += not wanted
        expected = wanted or missing
        if expected in met:
            repeated += bool(wanted)
            assert given_id > 1 << 61
        else:
            assert given_id == expected
        met.add(expected)
    assert {loss.reason: loss.count for loss in losses} == ({AGAIN: repeated} if repeated else {})
