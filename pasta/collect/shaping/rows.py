"""Rows of one table, gathered one by one and appended in batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pasta.schema import arrow_schema
from pasta.trace_writer import PartWriter

_BATCH_ROWS = 1 << 16


class Rows:
    """Gathers rows of a table.

    Args:
        part: where they go.
        table: the table.
        columns: the columns that `add` is given, in its order; all others are null.
    """

    def __init__(self, part: PartWriter, table: str, *columns: str) -> None:
        schema = arrow_schema(table)
        self._part = part
        self._table = table
        self._schema = pa.schema([schema.field(name) for name in columns])
        self._rows: list[tuple[Any, ...]] = []

    def add(self, *values: Any) -> None:
        """Add a row; its values must fit their columns."""
        self._rows.append(values)
        if len(self._rows) >= _BATCH_ROWS:
            self.flush()

    def add_columns(self, *columns: pa.Array[Any]) -> None:
        """Append rows that are columns already."""
        self.flush()
        self._part.append(self._table, pa.Table.from_arrays(list(columns), schema=self._schema))

    def flush(self) -> None:
        """Append what has been gathered."""
        if not self._rows:
            return
        columns = [
            pa.array(values, field.type)
            for values, field in zip(zip(*self._rows, strict=True), self._schema, strict=True)
        ]
        self._rows = []
        self._part.append(self._table, pa.Table.from_arrays(columns, schema=self._schema))
