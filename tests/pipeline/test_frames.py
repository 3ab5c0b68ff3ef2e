"""Rows of array stages keep chunks that Polars need not align."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from pasta.pipeline.engines.cpu import CpuEngine
from pasta.pipeline.frames import beside, in_even_chunks, with_arrays, with_columns_of


def in_parts(*heights):
    """Rows of `a` and `b` in chunks of these heights."""
    parts = [pl.DataFrame({"a": range(height), "b": ["x"] * height}) for height in heights]
    return pl.concat(parts, rechunk=False)


def chunks(rows):
    return {tuple(column.chunk_lengths()) for column in rows.get_columns()}


@pytest.mark.parametrize(
    ("first", "second"), [((3, 2), (1, 4)), ((3, 0, 2), (5,)), ((2, 3), (2, 3)), ((0,), (0, 0))]
)
def test_columns_are_cut_at_the_same_places(first, second):
    other = in_parts(*second).rename({"a": "c", "b": "d"})
    mixed = in_parts(*first).hstack(other)
    even = in_even_chunks(mixed)
    assert len(chunks(even)) == 1
    assert even.equals(mixed)


def test_a_frame_of_very_many_chunks_becomes_one():
    mixed = in_parts(*[1] * 1500).with_columns(pl.Series("c", range(1500)))
    even = in_even_chunks(mixed)
    assert chunks(even) == {(1500,)}
    assert even.equals(mixed)


def test_new_columns_take_the_chunks_of_the_rows():
    rows, values = in_parts(4, 6), np.arange(10)
    new = pl.DataFrame({"n": values})
    for found in (with_arrays(rows, n=values), with_columns_of(rows, new), beside(rows, new)):
        assert chunks(found) == {(4, 6)}
        assert found.equals(rows.hstack(new))


def test_the_cpu_engine_gives_even_chunks():
    rows = in_parts(4, 6).with_columns(pl.Series("c", range(10)))
    assert len(chunks(rows)) == 2
    (found,) = CpuEngine().collect([rows.lazy()])
    assert len(chunks(found)) == 1
