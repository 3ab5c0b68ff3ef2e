"""Columns of CSV files of AMD's profilers, as numbers and texts."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pasta.collect.containers.text_lines import first_lines
from pasta.collect.losses import Losses
from pasta.collect.shaping.units import scaled
from pasta.collect.sources import Source

_ROUNDED = "time that a spreadsheet has rounded (8.1E+14): read as unknown"


def first_cells(source: Source, line: int = 0) -> list[str]:
    """Return the fields of one of the first lines; none where it is no CSV or not in the head."""
    lines = first_lines(source, line + 1)
    if len(lines) <= line:
        lines = [source.head.decode(errors="replace")] if line == 0 else []
    try:
        return [cell.strip() for cell in next(csv.reader(lines[line : line + 1]), [])]
    except csv.Error:
        return []


class Cells:
    """The columns of one batch, by name; one that the file lacks is null.

    Args:
        batch: texts.
        losses: where texts that are no numbers are counted.
    """

    def __init__(self, batch: pa.RecordBatch, losses: Losses) -> None:
        self._batch = batch
        self._losses = losses

    def __len__(self) -> int:
        return self._batch.num_rows

    def texts(self, name: str) -> pa.Array[Any]:
        """Return a column as it is."""
        if name not in self._batch.schema.names:
            return pa.array([None] * len(self), pa.string())
        return self._batch.column(name)

    def numbers(self, name: str, kind: pa.DataType | None = None) -> pa.Array[Any]:
        """Return whole numbers as i64 or `kind`; what is none is null and counted."""
        texts = self.texts(name)
        values = scaled(texts, 1)
        if kind is not None:
            low, high = _range(kind)
            inside = pc.and_(
                pc.greater_equal(values, pa.scalar(low)), pc.less_equal(values, pa.scalar(high))
            )
            values = pc.if_else(inside, values, None).cast(kind)
        lost = values.null_count - texts.null_count
        self._losses.fault(f"{name} is not a whole number that fits: read as null", lost)
        return values

    def floats(self, name: str) -> pa.Array[Any]:
        """Return numbers; what is none is null and counted."""
        texts = self.texts(name)
        values = pa.array([_float(text) for text in texts.to_pylist()], pa.float64())
        self._losses.fault(
            f"{name} is no number: read as null", values.null_count - texts.null_count
        )
        return values

    def first_of(self, *names: str, kind: pa.DataType | None = None) -> pa.Array[Any]:
        """Return the numbers of the first column that the file has, as `numbers` does."""
        there = [name for name in names if name in self._batch.schema.names]
        return self.numbers(there[0] if there else names[0], kind)

    def registers(self, vector: str, accumulation: str) -> pa.Array[Any]:
        """Return the vector registers of both kinds, which share one file."""
        accumulated = self.numbers(accumulation, pa.uint32()).fill_null(0)
        both: pa.Array[Any] = pc.add(self.numbers(vector, pa.uint32()), accumulated)
        return both

    def times(self) -> Mapping[str, pa.Array[Any]]:
        """Return starts and ends; nothing where the file has no times."""
        if "Start_Timestamp" not in self._batch.schema.names:
            return {}
        return {"start": self._moments("Start_Timestamp"), "end": self._moments("End_Timestamp")}

    def _moments(self, name: str) -> pa.Array[Any]:
        """Return times; those in exponents have lost their nanoseconds, and are null."""
        texts = self.texts(name)
        rounded = np.array(["E+" in (text or "").upper() for text in texts.to_pylist()], dtype=bool)
        self._losses.fault(_ROUNDED, int(rounded.sum()))
        times = self.numbers(name)
        if not rounded.any():
            return times
        known: pa.Array[Any] = pc.if_else(pa.array(rounded), pa.scalar(None, times.type), times)
        return known


def _float(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


def _range(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_unsigned_integer(kind):
        return 0, (1 << min(kind.bit_width, 63)) - 1
    return -(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1
