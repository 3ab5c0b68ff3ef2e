"""Starts and ends, in integer nanoseconds, to the times and durations of a trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pasta.collect.losses import Losses
from pasta.collect.shaping.decimal_time import LIMIT


def intervals(
    start: pa.Array[Any], end: pa.Array[Any], losses: Losses, what: str
) -> tuple[NDArray[np.bool_], pa.Array[Any], pa.Array[Any]]:
    """Return which rows have a time, and `ts` and `dur` of all rows.

    A start that is unknown, not positive or beyond `LIMIT` is none; an end of the same kind, or one
    before its start, leaves the duration null. All of it is counted.

    Args:
        start: starts in ns, i64.
        end: ends in ns, i64.
        losses: where it is counted.
        what: what the rows are called, as `kernel`.
    """
    starts, timed = _believed(start)
    ends, ended = _believed(end)
    losses.fault(f"{what} without a time: left out", int((~timed).sum()))
    losses.fault(f"{what} without an end: kept without a duration", int((timed & ~ended).sum()))
    backwards = timed & ended & (ends < starts)
    losses.fault(
        f"{what} that ends before it starts: kept without a duration", int(backwards.sum())
    )
    durations = pa.array(ends - starts, mask=~ended | backwards)
    return timed, pa.array(starts), durations


def _believed(times: pa.Array[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return times and which of them are believed; the others are 0."""
    values: NDArray[np.int64] = times.fill_null(0).to_numpy(zero_copy_only=False)
    good = (values > 0) & (values < LIMIT)
    return np.where(good, values, 0), good
