"""The law of mergeable stages, for property tests."""

from __future__ import annotations

import itertools
from typing import Any

import polars as pl
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from pasta.pipeline.stage import STAGES, Merge


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
    expected = stage.function(rows if stage.array else rows.lazy(), **arguments).lazy().collect()
    for state in (combined, again):
        assert_frame_equal(stage.merge.final(state, **arguments).collect(), expected)
    if stage.merge.keys(arguments):
        assert_cuts(stage.merge, states, arguments, expected)


def assert_cuts(
    merge: Merge, states: list[pl.LazyFrame], arguments: dict[str, Any], expected: pl.DataFrame
):
    """States cut by their keys, each cut by itself with what all have in common, give the same rows."""
    cut = pl.struct(*merge.keys(arguments)).hash() % 3
    found = []
    for number in range(3):
        parts = [state.filter(cut == number) for state in states]
        if merge.common is not None:
            parts += [merge.common(state, **arguments) for state in states]
        combined = merge.combine(pl.concat(parts), **arguments)
        found.append(merge.final(combined, **arguments).collect())
    assert_frame_equal(pl.concat(found), expected, check_row_order=False)
