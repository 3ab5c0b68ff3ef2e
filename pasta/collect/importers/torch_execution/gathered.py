"""Rows that are gathered one by one and kept on disk, of which some are read again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

BLOCK_ROWS = 1 << 13


class Gathered:
    """Rows on disk, numbered from 0.

    Args:
        file: where they are kept; its folder is made if absent.
        schema: their columns.
    """

    def __init__(self, file: Path, schema: Mapping[str, pa.DataType]) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.height = 0
        self._file = file
        self._schema = pa.schema(list(schema.items()))
        self._rows: list[Sequence[Any]] = []
        self._writer = pq.ParquetWriter(file, self._schema, compression="lz4")

    def add(self, row: Sequence[Any]) -> None:
        """Add a row."""
        self._rows.append(row)
        self.height += 1
        if len(self._rows) >= BLOCK_ROWS:
            self._flush()

    def close(self) -> None:
        """End adding; rows can be read from now on."""
        self._flush()
        self._writer.close()

    def blocks(self) -> Iterator[pl.DataFrame]:
        """Yield all rows in order, some at a time."""
        with pq.ParquetFile(self._file) as file:
            for block in range(file.num_row_groups):
                yield pl.DataFrame(file.read_row_group(block))

    def rows(self, places: NDArray[np.int64]) -> pl.DataFrame:
        """Return the rows of some numbers, in their order."""
        order = np.argsort(places, kind="stable")
        ascending = places[order]
        found = []
        with pq.ParquetFile(self._file) as file:
            for block in np.unique(ascending // BLOCK_ROWS).tolist():
                first = block * BLOCK_ROWS
                start, stop = np.searchsorted(ascending, [first, first + BLOCK_ROWS])
                held = pl.DataFrame(file.read_row_group(block))
                found.append(held[ascending[start:stop] - first])
        if not found:
            return pl.DataFrame(pa.Table.from_batches([], self._schema))
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        rows: pl.DataFrame = pl.concat(found)[back]
        return rows

    def _flush(self) -> None:
        if not self._rows:
            return
        columns = [
            pa.array(values, column.type)
            for values, column in zip(zip(*self._rows, strict=True), self._schema, strict=True)
        ]
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema))
        self._rows = []
