"""Values of another table's rows, by the id that leads to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pasta.collect.containers.sqlite_tables import SqliteTables


class Lookup:
    """The rows of one table, by one of its columns; of rows with one key, the first counts.

    Args:
        tables: the file.
        table: the table; an absent one has no rows.
        columns: the columns that are looked up.
        key: the column that tells the row.
    """

    def __init__(
        self,
        tables: SqliteTables,
        table: str,
        columns: Mapping[str, pa.DataType],
        key: str = "id",
    ) -> None:
        rows = tables.table(table, {key: pa.int64(), **columns})
        keys = rows[key].combine_chunks().fill_null(0).to_numpy(zero_copy_only=False)
        if (keys[1:] < keys[:-1]).any():
            order: NDArray[np.int64] = np.argsort(keys, kind="stable")
            rows, keys = rows.take(order), keys[order]
        self._keys: NDArray[np.int64] = keys
        self._columns = {name: rows[name].combine_chunks() for name in rows.column_names}
        self.rows = pa.table(self._columns)

    def of(self, keys: pa.Array[Any], *names: str) -> list[pa.Array[Any]]:
        """Return columns for the rows that keys lead to; null where they lead to none."""
        wanted = keys.fill_null(0).to_numpy(zero_copy_only=False)
        place = np.searchsorted(self._keys, wanted)
        inside = np.minimum(place, max(len(self._keys) - 1, 0))
        found = np.zeros(len(wanted), dtype=bool)
        rows = np.zeros(len(wanted), dtype=np.int64)
        if len(self._keys):
            found = (self._keys[inside] == wanted) & keys.is_valid().to_numpy(zero_copy_only=False)
            rows = inside
        indices: pa.Array[Any] = pa.array(np.where(found, rows, 0), mask=~found)
        return [self._columns[name].take(indices) for name in names]
