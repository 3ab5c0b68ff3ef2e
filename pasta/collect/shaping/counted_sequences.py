"""Numbers of collectives that carry none, counted in order of time."""

from __future__ import annotations

import polars as pl

_KEY = ("pid", "device", "communicator", "stream")


class CountedSequences:
    """Numbers collectives from 0 on each stream of each device, slice after slice.

    Where the kernels' names are all that is known of communicators, those that share a stream are
    in the order in which every rank runs them.
    """

    def __init__(self) -> None:
        self._met = pl.DataFrame(schema={**_SCHEMA, "met": pl.Int64})

    def add(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Fill `sequence` and `sequence_source` of one slice."""
        counted = (
            frame.drop("sequence", "sequence_source")
            .join(self._met, on=_KEY, how="left", nulls_equal=True, maintain_order="left")
            .with_columns(
                sequence=pl.col("met").fill_null(0) + pl.int_range(pl.len()).over(_KEY),
                sequence_source=pl.lit("counted"),
            )
        )
        here = counted.group_by(_KEY).agg(met=pl.col("sequence").max() + 1)
        self._met = pl.concat([self._met, here]).group_by(_KEY).agg(pl.col("met").max())
        return counted.select(frame.columns)


_SCHEMA = {"pid": pl.Int64, "device": pl.Int32, "communicator": pl.String, "stream": pl.Int64}
