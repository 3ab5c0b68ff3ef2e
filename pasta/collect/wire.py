"""The tables of the channel: those of a trace, with texts interned by each producer."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pasta.collect.channel_ring import Producer
from pasta.collect.warp_accesses import WARP_ACCESS
from pasta.schema import TABLES, arrow_schema

TEXT, TEXTS, FILE, WARPS = "text", "texts", "file", "warp_access"
_FROM_RING = ("rank", "pid")


def _wire_field(field: pa.Field[Any]) -> pa.Field[Any]:
    if pa.types.is_string(field.type):
        return pa.field(f"{field.name}_{TEXT}", pa.uint32())
    if pa.types.is_list(field.type) and pa.types.is_string(field.type.value_type):
        return pa.field(f"{field.name}_{TEXTS}", pa.uint32())
    return pa.field(field.name, field.type)


def _wire_schema(table: str) -> pa.Schema:
    return pa.schema(
        _wire_field(field) for field in arrow_schema(table) if field.name not in _FROM_RING
    )


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()])


WIRE_TABLES: dict[str, pa.Schema] = {
    **{table: _wire_schema(table) for table in TABLES},
    TEXT: _schema(id=pa.uint32(), text=pa.string()),
    TEXTS: _schema(id=pa.uint32(), texts=pa.list_(pa.string())),
    FILE: _schema(path=pa.string(), kind=pa.string(), shift=pa.int64(), events=pa.uint64()),
    WARPS: _schema(**WARP_ACCESS),
}
"""What producers write: a trace's tables without `rank` and `pid`, which the ring knows; a column
of texts is one of ids of rows of `text`, a column of lists of texts one of ids of rows of `texts`,
both unique in their ring and written before their use, 0 for null; a row of `file` names a file
that the reader imports and removes; a row of `warp_access` stands for up to 32 of `access`."""


class Decoder:
    """Turns batches of one producer into rows of a trace.

    Attributes:
        producer: who writes the ring.
        unknown: cells whose text never came; they are null.
    """

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.unknown = 0
        self._known = {TEXT: _Texts(pa.string()), TEXTS: _Texts(pa.list_(pa.string()))}

    def learn(self, table: str, rows: pa.RecordBatch) -> None:
        """Keep the texts that a batch of `text` or `texts` brings."""
        self._known[table].add(rows.column("id").to_pylist(), rows.column(table).to_pylist())

    def rows(self, table: str, batch: pa.RecordBatch) -> pa.Table:
        """Return the batch as rows of the trace's table, copied out of shared memory."""
        columns: dict[str, pa.Array[Any] | pa.ChunkedArray[Any]] = {}
        names = set(batch.schema.names)
        for field in arrow_schema(table):
            wire = _wire_field(field).name
            if field.name == "rank":
                columns["rank"] = pa.repeat(
                    pa.scalar(self.producer.rank, field.type), batch.num_rows
                )
            elif field.name == "pid":
                columns["pid"] = pa.repeat(pa.scalar(self.producer.pid, field.type), batch.num_rows)
            elif wire in names and wire != field.name:
                columns[field.name] = self._resolve(wire.rpartition("_")[2], batch.column(wire))
            elif wire in names:
                columns[field.name] = _copied(batch.column(wire))
        return pa.Table.from_pydict(columns)

    def _resolve(self, kind: str, ids: pa.Array[Any]) -> pa.Array[Any]:
        resolved, unknown = self._known[kind].resolve(ids)
        self.unknown += unknown
        return resolved


def _copied(column: pa.Array[Any]) -> pa.Array[Any]:
    """Return a copy; the concatenation of one array alone would be that array."""
    return pa.concat_arrays([column, column.slice(0, 0)])


class _Texts:
    """The texts of one ring by id, in the order of their ids; id 0, and what was lost, is null."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._values: list[Any] = [None]
        self._array: pa.Array[Any] = pa.array(self._values, kind)

    def add(self, ids: list[Any], values: list[Any]) -> None:
        """Add texts in the order of their ids; one that is known stays as it is."""
        for number, value in zip(ids, values, strict=True):
            lost = number - len(self._values)
            if lost >= 0:
                self._values += [None] * lost
                self._values.append(value)

    def resolve(self, ids: pa.Array[Any]) -> tuple[pa.Array[Any], int]:
        """Return the texts, and how many ids are unknown."""
        if len(self._array) < len(self._values):
            fresh = pa.array(self._values[len(self._array) :], self._kind)
            self._array = pa.concat_arrays([self._array, fresh])
        known = pc.less(ids, pa.scalar(len(self._array), pa.uint32()))
        texts = self._array.take(pc.if_else(known, ids, None))
        nulls = pc.equal(ids, pa.scalar(0, pa.uint32())).true_count
        return texts, texts.null_count - nulls
