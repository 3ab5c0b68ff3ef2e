"""What is known only once a Kineto file has been read: time base, process, parents, order."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from pasta.collect.importers.span_parents import SpanParents
from pasta.collect.losses import Losses
from pasta.schema import TABLES
from pasta.trace_writer import Transform

_TIMES = ("ts", "started", "ended")


def finish_transforms(
    pid: int, base_ns: int, losses: Losses, launch_gap: int
) -> Mapping[str, Transform]:
    """Return for each table what completes its rows, slice after slice in order of time.

    Args:
        pid: the process of all rows.
        base_ns: added to every time.
        losses: where what parents leave doubtful is counted.
        launch_gap: taken from the launch ids beyond it, which are those of a second half.
    """
    span_parents = SpanParents(losses)
    sequences = CollectiveSequences()
    frames: set[tuple[int, int]] = set()

    def complete(frame: pl.DataFrame) -> pl.DataFrame:
        shifted = [pl.col(name) + base_ns for name in _TIMES if base_ns and name in frame.columns]
        if "launch_id" in frame.columns:
            launch = pl.col("launch_id")
            shifted.append(pl.when(launch > launch_gap).then(launch - launch_gap).otherwise(launch))
        return frame.with_columns(pl.lit(pid, dtype=pl.Int64).alias("pid"), *shifted)

    def first_of_each(frame: pl.DataFrame) -> pl.DataFrame:
        keys = list(frame.select("stack_id", "depth").iter_rows())
        fresh = [key not in frames and not frames.add(key) for key in keys]
        return frame.filter(pl.Series(fresh, dtype=pl.Boolean))

    transforms: dict[str, Transform] = dict.fromkeys(TABLES, complete)
    transforms["span"] = lambda frame: complete(span_parents.add(frame))
    transforms["frame"] = lambda frame: complete(first_of_each(frame))
    transforms["collective"] = lambda frame: complete(sequences.add(frame))
    return transforms


class CollectiveSequences:
    """Numbers the collectives of each communicator in order of time, where none is recorded."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int, int | None], int] = {}

    def add(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Fill `sequence` and `sequence_source` of one slice."""
        numbers = []
        for communicator, device, stream in frame.select(
            "communicator", "device", "stream"
        ).iter_rows():
            key = (communicator, device, None if communicator else stream)
            numbers.append(self._seen.get(key, 0))
            self._seen[key] = numbers[-1] + 1
        counted = pl.Series(numbers, dtype=pl.Int64)
        recorded = pl.col("sequence").is_not_null()
        return frame.with_columns(
            pl.when(recorded).then(pl.col("sequence")).otherwise(counted).alias("sequence"),
            pl.when(recorded)
            .then(pl.lit("recorded"))
            .otherwise(pl.lit("counted"))
            .alias("sequence_source"),
        )
