"""A device that is no device: array stages on the host, by the way they take on a GPU.

It finds out, where there is no GPU, what of their plans a GPU would decline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from pasta.pipeline.device_rows import Device


class Rehearsal(Device):
    """Runs plans with Polars and keeps their rows as Polars frames.

    Attributes:
        xp: numpy.
        problems: why the plans that were run would have been declined.
    """

    xp = np

    def __init__(self, declined: Callable[[pl.LazyFrame], list[str]] = lambda _plan: []) -> None:
        self._declined = declined
        self.problems: list[str] = []

    def evaluate(self, plan: pl.LazyFrame) -> pl.DataFrame:
        """Run `plan`; what would be declined is noted in `problems`."""
        self.problems += self._declined(plan)
        return plan.collect()

    def frame(self, columns: Mapping[str, Any]) -> pl.DataFrame:
        """Return arrays as a Polars frame."""
        return pl.DataFrame(dict(columns))

    def array(self, frame: pl.DataFrame, name: str) -> Any:
        """Return a column as a numpy array."""
        return frame[name].to_numpy()

    def gather(self, frame: pl.DataFrame, places: Any, *, nulls: bool = False) -> pl.DataFrame:
        """Return the rows at `places`."""
        known = pl.Series(places, dtype=pl.Int64).to_frame("row")
        if nulls:
            known = known.select(pl.when(pl.col("row") >= 0).then("row"))
        return frame.select(pl.all().gather(known["row"]))

    def select(self, frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
        """Return some columns; all where none is asked for, as a Polars frame of none has no height."""
        return frame.select(names) if names else frame

    def beside(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
        """Return the columns of both."""
        return left.hstack(right)

    def schema(self, frame: pl.DataFrame) -> pl.Schema:
        """Return the columns' names and types."""
        return frame.schema

    def height(self, frame: pl.DataFrame) -> int:
        """Return the number of rows."""
        return frame.height

    def download(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the frame, which lies on the host."""
        return frame
