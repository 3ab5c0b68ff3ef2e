"""Values of another table's rows, by the id that leads to them, on disk where there are many."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pasta.collect.containers.sqlite_tables import SqliteTables

BLOCK_ROWS = 1 << 16
_BLOCK_BYTES = 8 << 20
HELD_BLOCKS = 3


class _Block(NamedTuple):
    """Some rows in order of their keys, and these."""

    keys: NDArray[np.int64]
    rows: pa.RecordBatch


class Lookups:
    """Makes the lookups of one file.

    Args:
        tables: the file.
        folder: where rows go that memory does not hold; made once that is needed.
    """

    def __init__(self, tables: SqliteTables, folder: Path) -> None:
        self._tables = tables
        self._folder = folder
        self._made = 0

    def empty(self, columns: Mapping[str, pa.DataType], key: str = "id") -> Lookup:
        """Return a lookup without rows, of `columns` by `key`."""
        self._made += 1
        return Lookup(columns, key, self._folder / f"lookup-{self._made}")

    def of_table(self, table: str, columns: Mapping[str, pa.DataType], key: str = "id") -> Lookup:
        """Return the rows of a table; an absent one has none."""
        found = self.empty(columns, key)
        for batch in self._tables.read(table, {key: pa.int64(), **columns}):
            found.add(batch)
        return found


class Lookup:
    """Rows by one of their columns; of rows with one key, the first counts.

    Rows are kept in blocks, each in order of its keys. Memory holds the blocks that were asked for last:
    tables that refer to one another mostly do so in the order of their rows.

    Args:
        columns: the columns that are looked up.
        key: the column that tells the row.
        file: where blocks go that memory does not hold.
    """

    def __init__(self, columns: Mapping[str, pa.DataType], key: str, file: Path) -> None:
        self._schema = pa.schema([(key, pa.int64()), *columns.items()])
        self._key = key
        self._file = file
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._pending_bytes = 0
        self._extents: list[tuple[int, int]] = []
        self._held: OrderedDict[int, _Block] = OrderedDict()
        self._places: list[int] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows that have the key and all columns; not after rows have been looked up."""
        self._pending.append(rows.select(self._schema.names))
        self._pending_rows += rows.num_rows
        self._pending_bytes += rows.nbytes
        if self._pending_rows >= BLOCK_ROWS or self._pending_bytes >= _BLOCK_BYTES:
            self._close_block()

    @property
    def rows(self) -> pa.Table:
        """All rows of a small table, in order of their keys."""
        blocks = list(self._blocks())
        keys = np.concatenate([np.zeros(0, dtype=np.int64), *(block.keys for block in blocks)])
        rows = pa.Table.from_batches([block.rows for block in blocks], self._schema)
        return rows.take(np.argsort(keys, kind="stable")).combine_chunks()

    def distinct(self, name: str) -> pa.Array[Any]:
        """Return the different values of a column."""
        empty: pa.Array[Any] = pa.array([], self._schema.field(name).type)
        pieces = [pc.unique(block.rows[name]) for block in self._blocks()]
        return pc.unique(pa.concat_arrays([empty, *pieces]))

    def of(self, keys: pa.Array[Any], *names: str) -> list[pa.Array[Any]]:
        """Return columns for the rows that keys lead to; null where they lead to none."""
        wanted = keys.fill_null(0).to_numpy(zero_copy_only=False)
        left = keys.is_valid().to_numpy(zero_copy_only=False)
        low, high = wanted.min(initial=1 << 62), wanted.max(initial=-(1 << 62))
        indices = np.zeros(len(wanted), dtype=np.int64)
        missing = np.ones(len(wanted), dtype=bool)
        pieces = []
        found = 0
        for number, (first, last) in enumerate(self._closed()):
            if last < low or first > high:
                continue
            block = self._block(number)
            place = np.minimum(np.searchsorted(block.keys, wanted), len(block.keys) - 1)
            here = np.flatnonzero((block.keys[place] == wanted) & left)
            if not len(here):
                continue
            left[here] = missing[here] = False
            indices[here] = found + np.arange(len(here))
            found += len(here)
            pieces.append(block.rows.select(names).take(place[here]))
        schema = pa.schema([self._schema.field(name) for name in names])
        rows = pa.Table.from_batches(pieces, schema).combine_chunks()
        chosen: pa.Array[Any] = pa.array(indices, mask=missing)
        return [_whole(rows[name]).take(chosen) for name in names]

    def _closed(self) -> list[tuple[int, int]]:
        """Return the first and last key of each block, once all rows are in one."""
        if self._pending_rows:
            self._close_block()
        return self._extents

    def _blocks(self) -> Iterator[_Block]:
        return (self._block(number) for number in range(len(self._closed())))

    def _close_block(self) -> None:
        table = pa.Table.from_batches(self._pending, self._schema).combine_chunks()
        self._pending = []
        self._pending_rows = self._pending_bytes = 0
        keys = _whole(table[self._key]).fill_null(0).to_numpy(zero_copy_only=False)
        if (keys[1:] < keys[:-1]).any():
            order: NDArray[np.int64] = np.argsort(keys, kind="stable")
            table, keys = table.take(order), keys[order]
        self._hold(len(self._extents), _Block(keys, table.combine_chunks().to_batches()[0]))
        self._extents.append((int(keys[0]), int(keys[-1])))

    def _block(self, number: int) -> _Block:
        block = self._held.get(number)
        if block is None:
            with self._file.open("rb") as file:
                file.seek(self._places[number])
                with pa.ipc.open_stream(file) as stream:
                    rows = stream.read_next_batch()
            keys = rows[self._key].fill_null(0).to_numpy(zero_copy_only=False)
            block = _Block(keys, rows)
        self._hold(number, block)
        return block

    def _hold(self, number: int, block: _Block) -> None:
        """Hold a block; what memory holds too many of is written, once each."""
        self._held[number] = block
        self._held.move_to_end(number)
        if len(self._held) > HELD_BLOCKS:
            oldest, leaving = self._held.popitem(last=False)
            self._write(oldest, leaving.rows)

    def _write(self, number: int, rows: pa.RecordBatch) -> None:
        self._places += [-1] * (number + 1 - len(self._places))
        if self._places[number] >= 0:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab") as file:
            self._places[number] = file.tell()
            with pa.ipc.new_stream(file, self._schema) as stream:
                stream.write_batch(rows)


def _whole(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """Return a column as one array."""
    found: pa.Array[Any] = column.combine_chunks()
    return found
