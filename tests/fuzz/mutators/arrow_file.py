"""Changes of Arrow and Parquet files: of columns, their types and values, and of the bytes."""

from __future__ import annotations

import io
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from .oddities import odd_integer, odd_text
from .raw import mutate_bytes

_TYPES = [
    *(pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.string()),
    *(pa.large_string(), pa.binary(), pa.bool_(), pa.timestamp("us"), pa.timestamp("s", "UTC")),
    *(pa.duration("ms"), pa.time64("ns"), pa.date32(), pa.decimal128(38, 3), pa.null()),
    *(pa.dictionary(pa.int32(), pa.string()), pa.list_(pa.int64()), pa.struct([("a", pa.int64())])),
]


def mutate_arrow(data: bytes, random: Random) -> bytes:
    """Return the file with its columns or its bytes changed."""
    if random.random() < 0.5:
        return mutate_bytes(data, random)
    try:
        table = _read(data)
    except (pa.ArrowException, OSError):
        return mutate_bytes(data, random)
    for _ in range(random.choice([1, 1, 2])):
        try:
            table = _change(table, random)
        except (pa.ArrowException, OverflowError, UnicodeError):
            continue
    try:
        return _written(table, data, random)
    except pa.ArrowException:  # Parquet has not all types of Arrow
        return mutate_bytes(data, random)


def _read(data: bytes) -> pa.Table:
    if data.startswith(b"PAR1"):
        return pq.read_table(io.BytesIO(data))
    if data.startswith(b"ARROW1"):
        return pa.ipc.open_file(data).read_all()
    return pa.ipc.open_stream(data).read_all()


def _written(table: pa.Table, old: bytes, random: Random) -> bytes:
    sink = io.BytesIO()
    if old.startswith(b"PAR1"):
        pq.write_table(table, sink, row_group_size=random.choice([1, 2, 1000]))
        return sink.getvalue()
    new = pa.ipc.new_file if old.startswith(b"ARROW1") else pa.ipc.new_stream
    with new(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=random.choice([1, 2, 1000]))
    return sink.getvalue()


def _change(table: pa.Table, random: Random) -> pa.Table:
    if table.num_columns == 0:
        return table
    at = random.randrange(table.num_columns)
    name, column = table.column_names[at], table.column(at)
    kind = random.randrange(7)
    if kind == 0:
        return table.remove_column(at)
    if kind == 1:
        other = random.choice([odd_text(random)[:50], *table.column_names])
        return table.rename_columns(
            [other if index == at else old for index, old in enumerate(table.column_names)]
        )
    if kind == 2:
        return table.set_column(at, name, _of_type(table.num_rows, random.choice(_TYPES), random))
    if kind == 3:
        return table.set_column(at, name, column.cast(random.choice(_TYPES), safe=False))
    if kind == 4:
        return pa.concat_tables([table, table.slice(random.randrange(table.num_rows + 1))])
    if kind == 5:
        return table.slice(0, random.choice([0, 1]))
    values = column.to_pylist()
    if values:
        values[random.randrange(len(values))] = random.choice(
            [None, odd_integer(random), odd_text(random)]
        )
    return table.set_column(at, name, pa.array(values, column.type))


def _of_type(rows: int, kind: pa.DataType, random: Random) -> pa.Array:
    try:
        return pa.array([odd_integer(random) for _ in range(rows)]).cast(kind, safe=False)
    except (pa.ArrowException, OverflowError):
        return pa.nulls(rows, kind)
