"""What is known only once a Kineto file has been read: time base, process, parents, order."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from pasta.collect.importers.kineto.window import WINDOWED, Window
from pasta.collect.losses import Losses
from pasta.collect.shaping.span_parents import SpanParents
from pasta.schema import TABLES
from pasta.trace_merge import Transform

_TIMES = ("ts", "started", "ended")


def finish_transforms(
    pid: int,
    base_ns: int,
    losses: Losses,
    *,
    launch_gap: int,
    device_communicators: set[str],
    window: Window,
) -> Mapping[str, Transform]:
    """Return for each table what completes its rows, slice after slice in order of time.

    Args:
        pid: the process of all rows.
        base_ns: added to every time.
        losses: where what parents leave doubtful, and what lies outside of the window, is counted.
        launch_gap: taken from the launch ids beyond it, which are those of a second half.
        device_communicators: the communicators that kernels work for.
        window: when the profiler recorded; rows outside of it are counted.
    """
    complete = completion(pid, base_ns, launch_gap)
    first_steps: dict[str, Transform] = {
        "span": SpanParents(losses).add,
        "collective": Collectives(device_communicators).add,
        "frame": DistinctFrames().add,
    }
    transforms: dict[str, Transform] = dict.fromkeys(TABLES, complete)
    for table, first in first_steps.items():
        transforms[table] = _followed(first, complete)
    for table in WINDOWED:
        transforms[table] = _followed(window.counting(table, losses), transforms[table])
    return transforms


def completion(pid: int, base_ns: int, launch_gap: int = 0) -> Transform:
    """Return what makes times absolute and gives rows their process.

    Args:
        pid: the process of all rows.
        base_ns: added to every time.
        launch_gap: taken from the launch ids beyond it; 0: there are none.
    """

    def complete(frame: pl.DataFrame) -> pl.DataFrame:
        changed = [pl.col(name) + base_ns for name in _TIMES if name in frame.columns]
        if "launch_id" in frame.columns and launch_gap:
            launch = pl.col("launch_id")
            moved = pl.when(launch > launch_gap).then(launch - launch_gap).otherwise(launch)
            changed.append(moved.alias("launch_id"))
        return frame.with_columns(pl.lit(pid, dtype=pl.Int64).alias("pid"), *changed)

    return complete


def _followed(first: Transform, then: Transform) -> Transform:
    return lambda frame: then(first(frame))


class DistinctFrames:
    """Drops the frames of a stack that both halves of a file have met."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, int]] = set()

    def add(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of one slice that are new."""
        fresh = []
        for key in frame.select("stack_id", "depth").iter_rows():
            fresh.append(key not in self._seen)
            self._seen.add(key)
        return frame.filter(pl.Series(fresh, dtype=pl.Boolean))


class Collectives:
    """Keeps one row for each collective and numbers them where no number is recorded.

    The host's record of a collective counts only where no kernel works for its communicator, or
    it would stand twice. Numbers count up in order of time on each communicator, and on each
    stream where the communicator is unknown.

    Args:
        device_communicators: the communicators that kernels work for.

    Attributes:
        on_devices: the same, sorted; it may grow from slice to slice.
    """

    def __init__(self, device_communicators: set[str]) -> None:
        self.on_devices = sorted(device_communicators)
        self._seen: dict[tuple[str, int, int | None], int] = {}

    def add(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of one slice that stay, with `sequence` and `sequence_source`."""
        if "" in self.on_devices:
            frame = frame.filter(pl.col("device") >= 0)
        elif self.on_devices:
            elsewhere = ~pl.col("communicator").is_in(self.on_devices)
            frame = frame.filter((pl.col("device") >= 0) | elsewhere)
        numbers = []
        for communicator, device, stream in frame.select(
            "communicator", "device", "stream"
        ).iter_rows():
            key = (communicator, device, None if communicator else stream)
            numbers.append(self._seen.get(key, 0))
            self._seen[key] = numbers[-1] + 1
        recorded = pl.col("sequence").is_not_null()
        source = pl.when(recorded).then(pl.lit("recorded")).otherwise(pl.lit("counted"))
        return frame.with_columns(
            pl.col("sequence").fill_null(pl.Series(numbers, dtype=pl.Int64)),
            source.alias("sequence_source"),
        )
