"""Adding the tables that were made beside a recording to the trace that is being recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import polars as pl
import pyarrow.parquet as pq

from pasta.collect.receive import Receiver
from pasta.trace_writer import PartWriter

_IDS = ("span_id", "parent_id", "external_id", "stack_id", "object_id")


def append_part(part: PartWriter, receiver: Receiver, rank: int, first_id: int = 0) -> None:
    """Append the rows of a part; those of a process that other collectors know are of its rank.

    Args:
        part: tables that are finished.
        receiver: what takes the rows.
        rank: rank of all other processes.
        first_id: added to ids, so that they are no other collector's.
    """
    known = {pid: of for of, pid in receiver.processes}
    ranks = pl.col("pid").replace_strict(known, default=rank, return_dtype=pl.Int32)
    for table, rows in _batches(part):
        ids = pl.col([name for name in _IDS if name in rows.columns])
        unique = pl.when(ids > 0).then(ids + first_id).otherwise(ids)
        own = rows.with_columns(unique, rank=ranks)
        for (of,), group in own.group_by("rank", maintain_order=True):
            arrow = group.to_arrow(compat_level=pl.CompatLevel.oldest())
            receiver.append(cast("int", of), table, arrow)


def _batches(part: PartWriter) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the rows of a finished part by table, in pieces that fit into memory."""
    for table in part.rows:
        for file in sorted((part.folder / table).glob("*.parquet")):
            with pq.ParquetFile(file) as parquet:
                for batch in parquet.iter_batches():
                    rows = pl.from_arrow(batch)
                    assert isinstance(rows, pl.DataFrame)  # noqa: S101
                    yield table, rows
