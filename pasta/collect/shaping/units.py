"""Numbers of any spelling, times a whole factor, as integers: exactly, or counted."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, DecimalException
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_DIGITS_MAX = 18
_WHOLE = r"^-?[0-9]{1,18}$"
_LIMIT = 1 << 63


def scaled(column: pa.Array[Any], factor: int) -> pa.Array[Any]:
    """Return numbers times `factor` as i64.

    Integers and decimal texts are exact; binary fractions are rounded half to even. What is no number, or does
    not fit, is null.

    Args:
        column: integers, floats, decimals or texts.
        factor: a positive integer.
    """
    kind: Any = column.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return _scaled_integers(
            column.cast(pa.int64(), safe=False) if _fits(column) else column, factor
        )
    if pa.types.is_floating(kind):
        return _scaled_floats(column, factor)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        whole: Any = pc.match_substring_regex(column, _WHOLE)
        if pc.all(whole).as_py() is not False:
            return _scaled_integers(column.cast(pa.int64()), factor)
    return pa.array([_exact(value, factor) for value in column.to_pylist()], pa.int64())


def _fits(column: pa.Array[Any]) -> bool:
    if not pa.types.is_uint64(column.type):
        return True
    largest = pc.max(column).as_py()
    return largest is None or largest < _LIMIT


def _scaled_integers(column: pa.Array[Any], factor: int) -> pa.Array[Any]:
    if factor == 1 and pa.types.is_int64(column.type):
        return column
    try:
        return pc.multiply_checked(column.cast(pa.int64()), pa.scalar(factor, pa.int64()))
    except pa.ArrowInvalid:
        return pa.array([_exact(value, factor) for value in column.to_pylist()], pa.int64())


def _scaled_floats(column: pa.Array[Any], factor: int) -> pa.Array[Any]:
    """Scale the whole part as an integer and the rest on its own, so that neither loses digits."""
    values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    whole = np.trunc(values)
    good = np.isfinite(values) & (np.abs(whole) < _LIMIT // factor)
    whole = np.where(good, whole, 0)
    rest = np.rint((np.where(good, values, 0) - whole) * factor).astype(np.int64)
    return pa.array(whole.astype(np.int64) * factor + rest, pa.int64(), mask=~good)


def _exact(value: Any, factor: int) -> int | None:
    try:
        exact = Decimal(value.strip() if isinstance(value, str) else value) * factor
        if exact.adjusted() > _DIGITS_MAX:
            return None
        number = int(exact.to_integral_value(ROUND_HALF_EVEN))
    except (DecimalException, ValueError, OverflowError, TypeError):
        return None
    return number if -_LIMIT <= number < _LIMIT else None
