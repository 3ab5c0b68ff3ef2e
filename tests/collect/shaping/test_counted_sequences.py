"""Collectives are numbered in order of time on each stream, over all slices."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from pasta.collect.shaping.counted_sequences import CountedSequences

ROW = st.tuples(
    st.integers(1, 2), st.integers(0, 1), st.sampled_from(["", "a"]), st.sampled_from([None, 7, 8])
)


@given(slices=st.lists(st.lists(ROW, min_size=1, max_size=8), max_size=6))
def test_numbers_count_up_on_each_stream(
    slices: list[list[tuple[int, int, str, int | None]]],
) -> None:
    counted = CountedSequences()
    met: dict[tuple[int, int, str, int | None], int] = {}
    for rows in slices:
        frame = pl.DataFrame(
            rows,
            schema={
                "pid": pl.Int64,
                "device": pl.Int32,
                "communicator": pl.String,
                "stream": pl.Int64,
            },
            orient="row",
        ).with_columns(sequence=pl.lit(None, pl.Int64), sequence_source=pl.lit(None, pl.String))
        found = counted.add(frame)
        assert found.columns == frame.columns
        assert found.select("pid", "device", "communicator", "stream").rows() == rows
        for key, number in zip(rows, found["sequence"].to_list(), strict=True):
            assert number == met.get(key, 0)
            met[key] = number + 1
        assert set(found["sequence_source"]) == {"counted"}
