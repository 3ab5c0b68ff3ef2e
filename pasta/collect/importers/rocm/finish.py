"""What is known only once all rows of a process are there: parents, objects, ordinals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from pasta.collect.losses import Losses
from pasta.collect.shaping.span_parents import SpanParents
from pasta.trace_merge import Transform

_UNKNOWN_RELEASE = "release of memory that was allocated before the recording: size unknown"


def finish_transforms(losses: Losses) -> Mapping[str, Transform]:
    """Return for each table what completes its rows, slice after slice in order of time."""
    return {
        "span": SpanParents(losses).add,
        "memory": MemoryObjects(losses).add,
        "collective": CountedCollectives().add,
    }


class MemoryObjects:
    """Numbers allocations, and finds for each release what it releases.

    Args:
        losses: where releases of unknown memory are counted.
    """

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._live: dict[tuple[int, int], tuple[Any, ...]] = {}
        self._numbered = 0

    def add(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Fill `object_id`, and size, device and space of releases, of one slice."""
        columns = ("event", "pid", "address", "bytes", "device", "space")
        filled = [
            self._event(event, (pid, address or 0), known)
            for event, pid, address, *known in frame.select(columns).iter_rows()
        ]
        objects, sizes, devices, spaces = zip(*filled, strict=True)
        return frame.with_columns(
            pl.Series("object_id", objects, pl.UInt64),
            pl.Series("bytes", sizes, pl.Int64),
            pl.Series("device", devices, pl.Int32),
            pl.Series("space", spaces, pl.String),
        )

    def _event(self, event: str, place: tuple[int, int], known: list[Any]) -> tuple[Any, ...]:
        """Return object, size, device and space of one event; `known` is what it tells itself."""
        if event == "allocate":
            self._numbered += 1
            self._live[place] = (self._numbered, *known)
            return self._live[place]
        released = self._live.pop(place, None)
        if released is None:
            self._losses.skip(_UNKNOWN_RELEASE)
            return 0, *known
        return released


class CountedCollectives:
    """Numbers collectives in order of time on each stream, as nothing else tells them apart."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int | None, int | None], int] = {}

    def add(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Fill `sequence` and `sequence_source` of one slice."""
        numbers = []
        for stream in frame.select("pid", "device", "stream").iter_rows():
            numbers.append(self._seen.get(stream, 0))
            self._seen[stream] = numbers[-1] + 1
        return frame.with_columns(
            pl.Series("sequence", numbers, pl.Int64),
            pl.lit("counted").alias("sequence_source"),
        )
