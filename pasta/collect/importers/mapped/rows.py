"""Values of foreign columns as values of a trace's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pasta.collect.column_map import ColumnMap, Origin, Value
from pasta.collect.losses import Losses
from pasta.collect.shaping.columns import Columns
from pasta.collect.shaping.decimal_time import LIMIT
from pasta.collect.shaping.own_ids import OwnIds
from pasta.collect.shaping.sizes import NEGATIVE, not_negative
from pasta.collect.shaping.units import scaled
from pasta.schema import TABLES, Column

_OWNERS = frozenset({"pid", "tid"})
_ZERO_WHERE_UNKNOWN = frozenset({"pid", "tid", "device", "context", "stream"})
_NO_TIME = "row without a time that can be read: left out"
_OWN_IDS = {"kernel": "launch_id", "span": "span_id"}
_AGAIN = "{} that another row of the process has: given one of its own"
_NEGATIVE = "negative duration: read as unknown"
_ID_DIGITS_MAX = 20
_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


class Rows:
    """Turns rows of a file into rows of a table.

    Args:
        column_map: what the columns of the file are.
        losses: where values that do not fit are counted.
    """

    def __init__(self, column_map: ColumnMap, losses: Losses) -> None:
        self._map = column_map
        self._columns = {column.name: column for column in TABLES[column_map.table].columns}
        self._losses = losses
        self._shaping = Columns(losses)
        self._numbered = 0
        self._own_ids: dict[int, OwnIds] = {}

    def convert(self, batch: pa.RecordBatch) -> pa.Table:
        """Return rows with times that are known and durations that are not negative."""
        filled = {
            name: self._column(batch, self._columns[name], origin)
            for name, origin in self._map.origins.items()
        }
        if "dur" in filled and self._map.origins["dur"].is_end:
            filled["dur"] = pc.subtract(filled["dur"], filled["ts"])
        for name, reason in (("dur", _NEGATIVE), ("bytes", NEGATIVE)):
            if name in filled and pa.types.is_signed_integer(filled[name].type):
                filled[name] = not_negative(filled[name], self._losses, reason)
        for name in _OWNERS & filled.keys():
            filled[name] = filled[name].fill_null(0)
        self._tell_apart(filled)
        table = pa.table(self._with_defaults(filled, batch.num_rows))
        if "ts" not in filled:
            return table
        known = table.filter(pc.is_valid(table["ts"]))
        self._losses.fault(_NO_TIME, table.num_rows - known.num_rows)
        return known

    def _column(self, batch: pa.RecordBatch, column: Column, origin: Origin) -> Any:
        if not origin.column:
            constant: Any = pa.array([origin.value] * batch.num_rows)
            return self._typed(constant, column, origin.factor)
        values: Any = batch.column(origin.column)
        try:
            if origin.values:
                values = _translated(values, origin.values)
            return self._typed(values, column, origin.factor)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            self._losses.fault(
                f"{column.name} is of type {values.type}, which cannot be read: read as unknown",
                batch.num_rows,
            )
            unknown: Any = pa.array([None] * batch.num_rows, column.type)
            return unknown

    def _typed(self, values: Any, column: Column, factor: int) -> Any:
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if pa.types.is_string(column.type):
            return values.cast(column.type) if _is_text(values) else self._texts(values)
        if _is_id(column):
            return self._shaping.ids(_numbers_where_text(values), column.name)
        if pa.types.is_floating(column.type):
            return self._floats(values, column)
        if pa.types.is_temporal(values.type):
            values, factor = _integers(values)
        numbers: Any = scaled(values, factor)
        if column.unit == "ns":
            believed = pc.less(pc.abs(numbers), pa.scalar(LIMIT, pa.int64()))
            numbers = pc.if_else(believed, numbers, pa.scalar(None, pa.int64()))
        lost = numbers.null_count - values.null_count
        reason = f"{column.name} is not a whole number that fits: read as unknown"
        self._losses.fault(reason, lost)
        if numbers.type == column.type:
            return numbers
        return self._shaping.numbers(numbers.to_pylist(), column.type, column.name)

    def _texts(self, values: Any) -> Any:
        return self._shaping.texts(values.to_pylist())

    def _floats(self, values: Any, column: Column) -> Any:
        try:
            return values.cast(column.type)
        except pa.ArrowInvalid:
            parsed = [_float(value) for value in values.to_pylist()]
            lost = sum(number is None for number in parsed) - values.null_count
            self._losses.fault(f"{column.name} is not a number: read as unknown", lost)
            return pa.array(parsed, column.type)

    def _tell_apart(self, filled: dict[str, Any]) -> None:
        """Give rows of one process different ids, where the file has ids for them."""
        name = _OWN_IDS.get(self._map.table)
        if name not in filled:
            return
        rows = len(filled[name])
        pids = filled["pid"] if "pid" in filled else pa.repeat(pa.scalar(0, pa.int64()), rows)
        pid = pids.to_numpy(zero_copy_only=False)
        ids = filled[name].to_numpy(zero_copy_only=False).copy()
        for process in np.unique(pid).tolist():
            if process not in self._own_ids:
                self._own_ids[process] = OwnIds(self._losses, _AGAIN.format(name))
            of_process = pid == process
            own = self._own_ids[process].of(pa.array(ids[of_process]))
            ids[of_process] = own.to_numpy(zero_copy_only=False)
        filled[name] = pa.array(ids)

    def _with_defaults(self, filled: dict[str, Any], rows: int) -> dict[str, Any]:
        """Add what tools rely on where the file does not say it."""
        completed: dict[str, Any] = dict(filled)
        for name, column in self._columns.items():
            if name in filled:
                continue
            if name == "launch_id" and self._map.table == "kernel":
                completed[name] = range(self._numbered + 1, self._numbered + 1 + rows)
                completed[name] = pa.array(completed[name], pa.uint64())
                self._numbered += rows
            elif _is_id(column) or name in _ZERO_WHERE_UNKNOWN:
                completed[name] = pa.repeat(0, rows).cast(column.type)
        return completed


def _is_id(column: Column) -> bool:
    return pa.types.is_uint64(column.type) and column.name.endswith(("_id", "correlation"))


def _is_text(values: Any) -> bool:
    return pa.types.is_string(values.type) or pa.types.is_large_string(values.type)


def _numbers_where_text(values: Any) -> list[Any]:
    """Return ids, those that are written in digits as numbers; empty texts are none."""
    if not _is_text(values):
        return list(values.to_pylist())
    return [
        int(text) if text and text.isdecimal() and len(text) <= _ID_DIGITS_MAX else text or None
        for text in values.to_pylist()
    ]


def _translated(values: Any, meanings: dict[str, Value]) -> Any:
    """Return what each value stands for; one that is not among the meanings stands for itself."""
    texts = [None if value is None else str(value) for value in values.to_pylist()]
    translated = [None if text is None else meanings.get(text, text) for text in texts]
    try:
        return pa.array(translated)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # numbers and texts
        return pa.array([None if value is None else str(value) for value in translated])


def _integers(values: Any) -> tuple[Any, int]:
    """Return times as integers, and how many ns one of them is."""
    if pa.types.is_date(values.type):
        values = values.cast(pa.timestamp("s"), safe=False)
    bits = pa.int32() if pa.types.is_time32(values.type) else pa.int64()
    return values.cast(bits), _UNITS[values.type.unit]


def _float(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
