"""Ids and parents of spans, given slice after slice in order of time."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pasta.collect.losses import Losses
from pasta.nesting import OVERHANG, parents

_HOWEVER_FAR, _FAR_FUTURE = 1 << 62, 1 << 61


class SpanParents:
    """Numbers spans in order of time and finds the parent of each on its thread.

    Spans that are still open where a slice ends are carried over to the next.

    Args:
        losses: where spans that only partly overlap their parent are counted.
        open_ended: whether an unfinished span encloses all that follows on its thread, as where a
            program was killed; else it has a parent but encloses nothing.
        first: the id of the first span that comes without one; those that have one keep it.
    """

    def __init__(self, losses: Losses, *, open_ended: bool = False, first: int = 1) -> None:
        self._losses = losses
        self._numbered = first - 1
        self._unfinished = _FAR_FUTURE if open_ended else 0
        empty = np.zeros(0, dtype=np.int64)
        self._open = (empty, empty, empty, empty, empty)

    def add(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Fill `span_id` and `parent_id` of one slice."""
        start = frame["ts"].to_numpy()
        end = np.where(
            frame["dur"].is_null().to_numpy(),
            np.maximum(start, self._unfinished),
            start + frame["dur"].fill_null(0).to_numpy(),
        )
        ids = self._ids(frame["span_id"].fill_null(0).to_numpy())
        process = frame["pid"].fill_null(0).to_numpy()
        thread = frame["tid"].fill_null(0).to_numpy()
        carried = len(self._open[0])
        columns = [
            np.concatenate(pair)
            for pair in zip(self._open, (process, thread, start, end, ids), strict=True)
        ]
        parent = self._find_parents(_numbered(*columns[:2]), columns[2], columns[3], carried)
        parent_id = np.where(parent >= 0, columns[4][parent], 0)
        still_open = columns[3] > start[-1]
        self._open = tuple(column[still_open] for column in columns)
        return frame.with_columns(
            pl.Series("span_id", ids.astype(np.uint64)),
            pl.Series("parent_id", parent_id[carried:].astype(np.uint64)),
        )

    def _ids(self, known: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the ids of spans: those that they have, else the next ones."""
        missing = known == 0
        numbers = self._numbered + np.cumsum(missing)
        self._numbered += int(missing.sum())
        return np.where(missing, numbers, known.astype(np.int64))

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


def _numbered(process: NDArray[np.int64], thread: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a number for each pair of process and thread."""
    threads, thread_numbers = np.unique(thread, return_inverse=True)
    numbers: NDArray[np.int64] = np.unique(process, return_inverse=True)[1] * len(threads)
    return numbers + thread_numbers
