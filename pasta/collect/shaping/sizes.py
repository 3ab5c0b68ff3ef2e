"""Sizes in bytes, which no damage makes negative."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pasta.collect.losses import Losses

NEGATIVE = "negative size: read as unknown"


def not_negative(values: pa.Array[Any], losses: Losses, reason: str = NEGATIVE) -> pa.Array[Any]:
    """Return signed numbers with null in place of what is negative, which is counted.

    Args:
        values: sizes, or durations.
        losses: where they are counted.
        reason: what a negative one is, and what becomes of it.
    """
    zero = pa.scalar(0, values.type)
    least = pc.min(values)
    if not least.is_valid or least.as_py() >= 0:
        return values
    negative: Any = pc.less(values, zero)
    losses.fault(reason, pc.sum(negative).as_py())
    known: pa.Array[Any] = pc.if_else(negative, pa.scalar(None, values.type), values)
    return known
