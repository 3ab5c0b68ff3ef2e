"""The law of mergeable stages, for property tests."""

from __future__ import annotations

import itertools
from typing import Any

import polars as pl
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from pasta.pipeline.stage import STAGES


def assert_merges(name: str, rows: pl.DataFrame, arguments: dict[str, Any], data: st.DataObject):
    """`final(combine(partials of any split))` equals the stage over all rows."""
    stage = STAGES.get(name)
    assert stage.merge is not None
    assert stage.kind(arguments) == "mergeable"
    cuts = data.draw(st.lists(st.integers(0, rows.height), max_size=4).map(sorted))
    edges = [0, *cuts, rows.height]
    parts = [rows[low:high] for low, high in itertools.pairwise(edges)]
    states = [stage.merge.partial(part.lazy(), **arguments) for part in parts]
    combined = stage.merge.combine(pl.concat(states), **arguments)
    again = stage.merge.combine(combined, **arguments)
    expected = stage.function(rows.lazy(), **arguments).collect()
    for state in (combined, again):
        assert_frame_equal(stage.merge.final(state, **arguments).collect(), expected)
