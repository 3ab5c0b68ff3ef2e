"""Ids of rows of one process, no two of which are alike whatever the file says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pasta.collect.losses import Losses

_FIRST_OWN = 1 << 61
_DENSE = 1 << 26


class OwnIds:
    """Tells rows of one process apart.

    Args:
        losses: where ids that repeat are counted.
        reason: what such a row is, and what becomes of it.
    """

    def __init__(self, losses: Losses, reason: str) -> None:
        self._losses = losses
        self._reason = reason
        self._missing = 0
        self._repeated = 0
        self._met: NDArray[np.bool_] = np.zeros(1 << 10, dtype=np.bool_)
        self._met_large: set[int] = set()

    def of(self, told: pa.Array[Any]) -> pa.Array[Any]:
        """Return ids, of u64: those that rows have, next numbers where they have none.

        A row with the id of one before it gets an id beyond all that files have.
        """
        ids: NDArray[np.uint64] = told.fill_null(0).to_numpy(zero_copy_only=False)
        missing = ids == 0
        if missing.any():
            numbers = self._missing + np.cumsum(missing)
            self._missing += int(missing.sum())
            ids = np.where(missing, numbers.astype(np.uint64), ids)
        again = self._again(ids)
        count = int(again.sum())
        if count:
            self._losses.fault(self._reason, int((again & ~missing).sum()))
            own = np.cumsum(again) + (_FIRST_OWN + self._repeated)
            self._repeated += count
            ids = np.where(again, own.astype(np.uint64), ids)
        return pa.array(ids)

    def _again(self, ids: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return which ids have been met before, and remember all."""
        distinct, first = np.unique(ids, return_index=True)
        dense = distinct < _DENSE
        small = distinct[dense].astype(np.int64)
        if len(small) and small[-1] >= len(self._met):
            grown = np.zeros(max(2 * len(self._met), int(small[-1]) + 1), dtype=np.bool_)
            grown[: len(self._met)] = self._met
            self._met = grown
        known = np.zeros(len(distinct), dtype=np.bool_)
        known[dense] = self._met[small]
        self._met[small] = True
        large = distinct[~dense].tolist()
        known[~dense] = [number in self._met_large for number in large]
        self._met_large.update(large)
        again = np.ones(len(ids), dtype=np.bool_)
        again[first] = known
        return again
