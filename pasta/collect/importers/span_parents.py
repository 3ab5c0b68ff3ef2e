"""Ids and parents of spans, given slice after slice in order of time."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pasta.collect.losses import Losses
from pasta.nesting import OVERHANG, parents

_HOWEVER_FAR = 1 << 62


class SpanParents:
    """Numbers spans in order of time and finds the parent of each on its thread.

    An unfinished span has a parent but encloses nothing. Spans that are still open where a slice
    ends are carried over to the next.

    Args:
        losses: where spans that only partly overlap their parent are counted.
    """

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._numbered = 0
        empty = np.zeros(0, dtype=np.int64)
        self._open = (empty, empty, empty, empty)

    def add(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Fill `span_id` and `parent_id` of one slice."""
        start = frame["ts"].to_numpy()
        end = start + frame["dur"].fill_null(0).to_numpy()
        ids = self._numbered + 1 + np.arange(frame.height)
        self._numbered += frame.height
        thread = frame["tid"].to_numpy()
        carried = len(self._open[0])
        columns = [
            np.concatenate(pair) for pair in zip(self._open, (thread, start, end, ids), strict=True)
        ]
        group = np.unique(columns[0], return_inverse=True)[1]
        parent = self._find_parents(group, columns[1], columns[2], carried)
        parent_id = np.where(parent >= 0, columns[3][parent], 0)
        still_open = columns[2] > start[-1]
        self._open = tuple(column[still_open] for column in columns)
        return frame.with_columns(
            pl.Series("span_id", ids.astype(np.uint64)),
            pl.Series("parent_id", parent_id[carried:].astype(np.uint64)),
        )

    def _find_parents(
        self,
        group: NDArray[np.int64],
        start: NDArray[np.int64],
        end: NDArray[np.int64],
        carried: int,
    ) -> NDArray[np.int64]:
        """Return the row of each parent; where all nest well, one search is enough."""
        innermost: NDArray[np.int64] = parents(group, start, end, overhang=_HOWEVER_FAR)
        beyond = np.where(innermost >= 0, end - end[innermost], 0)
        new = slice(carried, None)
        slightly = (beyond > 0) & (beyond < OVERHANG)
        self._losses.skip(
            "span that ends less than 1 us after the one that encloses it: kept inside",
            int(slightly[new].sum()),
        )
        far = beyond >= OVERHANG
        if not far[new].any():
            return innermost
        self._losses.skip(
            "span that outlasts the one it starts in: given the next outer parent",
            int(far[new].sum()),
            int(start[new][far[new]].min()),
        )
        found: NDArray[np.int64] = parents(group, start, end)
        return found
