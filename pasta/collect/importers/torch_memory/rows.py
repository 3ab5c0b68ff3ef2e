"""Rows of the table `memory`, gathered and appended in batches."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from pasta.schema import arrow_schema
from pasta.trace_writer import PartWriter

BATCH_ROWS = 1 << 15
BLOCKS, SEGMENTS = "tensor", "device"


class Row(NamedTuple):
    """One allocation or release; totals are relative to those before the history began."""

    device: int
    ts: int
    event: str
    space: str
    address: int
    bytes: int
    object_id: int
    total_allocated: int
    total_reserved: int | None
    stream: int | None
    stack_id: int


class MemoryRows:
    """Appends rows to `memory`.

    Args:
        part: where the rows go.

    Attributes:
        before: (device, space) -> bytes that were live before the first row of that place.
    """

    def __init__(self, part: PartWriter) -> None:
        self.before: dict[tuple[int, str], int] = {}
        self._part = part
        self._rows: list[Row] = []

    def add(self, row: Row) -> None:
        """Add one row."""
        self._rows.append(row)
        if len(self._rows) >= BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Append what was gathered."""
        if not self._rows:
            return
        schema = arrow_schema("memory")
        columns: dict[str, Any] = dict(zip(Row._fields, zip(*self._rows, strict=True), strict=True))
        columns |= {name: [0] * len(self._rows) for name in ("pid", "tid")}
        self._part.append(
            "memory",
            pa.table({name: pa.array(columns[name], schema.field(name).type) for name in columns}),
        )
        self._rows = []

    def absolute(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Add to the totals of rows what was live before them."""
        frame = self._raised(frame, "total_allocated", self.before)
        reserved = {
            (device, BLOCKS): held
            for (device, space), held in self.before.items()
            if space == SEGMENTS
        }
        return self._raised(frame, "total_reserved", reserved)

    @staticmethod
    def _raised(frame: pl.DataFrame, column: str, by: dict[tuple[int, str], int]) -> pl.DataFrame:
        amount = pl.lit(0, dtype=pl.Int64)
        for (device, space), held in by.items():
            here = (pl.col("device") == device) & (pl.col("space") == space)
            amount = pl.when(here).then(pl.lit(held, dtype=pl.Int64)).otherwise(amount)
        return frame.with_columns(pl.col(column) + amount)
