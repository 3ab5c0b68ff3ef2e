"""The values of records, by path, as columns of a trace's types."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import pyarrow as pa

from pasta.collect.containers.json_uniform import UniformRecords
from pasta.collect.shaping.columns import Columns


class Fields:
    """The values of one batch.

    Args:
        records: as they were decoded.
        columns: makes columns of values that do not fit.
    """

    def __init__(self, records: Sequence[Any] | UniformRecords, columns: Columns) -> None:
        self._records = records
        self._columns = columns

    def __len__(self) -> int:
        return len(self._records)

    def numbers(self, path: str, kind: pa.DataType) -> pa.Array[Any]:
        """Return whole numbers; null where a record has none."""
        name = path.rpartition(".")[2]
        if not isinstance(self._records, UniformRecords):
            return self._columns.numbers(self.values(path), kind, name)
        values = self._records.column(path)
        if values is None:
            return pa.array([None] * len(self), kind)
        try:
            return pa.array(values).cast(kind)
        except pa.ArrowInvalid:
            return self._columns.numbers(values.tolist(), kind, name)

    def ids(self, path: str) -> pa.Array[Any]:
        """Return ids; 0 where a record has none."""
        if isinstance(self._records, UniformRecords):
            return self.numbers(path, pa.uint64()).fill_null(0)
        return self._columns.ids(self.values(path), path.rpartition(".")[2])

    def values(self, path: str) -> list[Any]:
        """Return the values as they are; `None` where a record has none."""
        if isinstance(self._records, UniformRecords):
            values = self._records.column(path)
            return [None] * len(self) if values is None else values.tolist()
        return list(map(attrgetter(path), self._records))
