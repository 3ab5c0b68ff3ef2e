"""The tables of one rank, kept in memory and sorted as a `PartWriter` sorts its files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from pasta.schema import TABLES
from pasta.trace_merge import Transform, conform
from pasta.trace_writer import PartWriter

_SLICE_ROWS = 4  # so few that the transforms see several slices of a tiny input


class MemoryPart(PartWriter):
    """Takes what an importer appends and writes nothing.

    Args:
        folder: where a `PartWriter` would have its files; importers put copies beside it.

    Attributes:
        tables: the rows by table; once finished, sorted and transformed.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.tables: dict[str, pa.Table] = {}
        self._appended: dict[str, list[pa.RecordBatch | pa.Table]] = {}

    @classmethod
    def open(cls, folder: Path) -> MemoryPart:
        """Return the tables of a trace that is finished; its files stay as they are."""
        part = cls(folder)
        for table in (entry.name for entry in folder.iterdir() if entry.is_dir()):
            part.tables[table] = pq.read_table(folder / table, partitioning=None)
            part.rows[table] = part.tables[table].num_rows
        return part

    def append(self, table: str, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows as `PartWriter.append` does, but fill up columns only when they are looked at."""
        if batch.num_rows == 0:
            return
        if table not in TABLES:
            raise AssertionError(f"appended to '{table}', which is no table")
        types = _types(table)
        if any(types.get(field.name) != field.type for field in batch.schema):
            batch = conform(table, batch)
        self._appended.setdefault(table, []).append(batch)
        self.rows[table] = self.rows.get(table, 0) + batch.num_rows

    def adopt(self, folder: Path, rows: Mapping[str, int]) -> None:  # noqa: ARG002
        """Refuse what only large files need."""
        raise AssertionError("a small input was read by two processes")

    def flush(self) -> None:
        """Make what was appended visible in `tables`."""
        for table, batches in self._appended.items():
            known = [self.tables[table]] if table in self.tables else []
            for batch in batches:
                batch.validate(full=True)
                known.append(conform(table, batch))
            self.tables[table] = pa.concat_tables(known)
        self._appended = {}

    def rewrite(self, table: str, transform: Transform) -> None:
        """Replace the rows of a table."""
        self.flush()
        if table in self.tables:
            self._replace(table, [transform(_frame(self.tables[table]))])

    def revise(self, table: str, transform: Transform) -> None:
        """Replace the rows of a finished table."""
        self.rewrite(table, transform)

    def finish(
        self,
        transforms: Mapping[str, Transform] | None = None,
        *,
        only: Collection[str] | None = None,
    ) -> None:
        """Sort each table by `ts` and transform it slice after slice."""
        changed = transforms or {}
        finished = set() if only is None else self.tables.keys() - set(only)
        new = {table for table in self._appended if table not in finished}
        self.flush()
        for table in sorted(new, key=self.rows.__getitem__, reverse=True):
            rows = _frame(self.tables[table])
            if "ts" in rows.columns:
                rows = rows.sort("ts", nulls_last=True, maintain_order=True)
            transform = changed.get(table)
            slices = [rows] if transform is None else map(transform, _slices(rows))
            self._replace(table, list(slices))

    def _replace(self, table: str, slices: list[pl.DataFrame]) -> None:
        columns = TABLES[table].schema.names
        batches = [
            conform(table, rows.select(columns).to_arrow(compat_level=pl.CompatLevel.oldest()))
            for rows in slices
        ]
        self.tables[table] = pa.concat_tables(batches)
        self.rows[table] = self.tables[table].num_rows


@cache
def _types(table: str) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in TABLES[table].schema}


def _slices(rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield a few rows at a time, in order of `ts`; rows of one `ts` are never parted."""
    if "ts" not in rows.columns:
        yield from rows.iter_slices(_SLICE_ROWS)
        return
    times = rows["ts"].to_list()
    low = 0
    while low < len(times):
        high = min(low + _SLICE_ROWS, len(times))
        while high < len(times) and times[high] == times[high - 1]:
            high += 1
        yield rows[low:high]
        low = high


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
