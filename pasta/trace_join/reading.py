"""Reading tables of a trace piece by piece, so that memory stays bounded whatever their size."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import cast

import polars as pl
import pyarrow.parquet as pq

from pasta.schema import arrow_schema
from pasta.trace import Trace, empty_table
from pasta.trace_join.matching import PROCESS, Process
from pasta.trace_merge import conform

BATCH_ROWS = 1 << 18


def batches(
    files: Iterable[Path], table: str, columns: Collection[str] | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the rows of files of `table`, with all of its columns or those that are named."""
    wanted = arrow_schema(table).names if columns is None else list(columns)
    for path in files:
        file = pq.ParquetFile(path)
        names = [name for name in file.schema_arrow.names if name in wanted]
        for batch in file.iter_batches(BATCH_ROWS, columns=names):
            yield cast(pl.DataFrame, pl.from_arrow(conform(table, batch).select(wanted)))


def whole(trace: Trace, table: str) -> pl.DataFrame:
    """Return a small table, empty where the trace lacks it."""
    return pl.concat([empty_table(table), *batches(trace.files(table), table)])


def by_process(rows: pl.DataFrame) -> Iterator[tuple[Process, pl.DataFrame]]:
    """Yield the rows of each process in their order; those that name none are of process 0."""
    known = rows.with_columns(pl.col(PROCESS).fill_null(0))
    parts = known.partition_by(PROCESS, as_dict=True, maintain_order=True)
    yield from cast(dict[Process, pl.DataFrame], parts).items()


def by_folder(trace: Trace, table: str) -> dict[Path, list[Path]]:
    """Return the files of `table` by the folder of their rank, relative to the trace."""
    found: dict[Path, list[Path]] = {}
    for file in trace.files(table):
        found.setdefault(file.parent.parent.relative_to(trace.path), []).append(file)
    return found


def folders_of_ranks(trace: Trace) -> dict[int, Path]:
    """Return the folder of each rank, relative to the trace."""
    found: dict[int, Path] = {}
    for table in ("process", "kernel"):
        for folder, files in by_folder(trace, table).items():
            ranks = pl.scan_parquet(files, hive_partitioning=False, glob=False)
            for rank in ranks.select(pl.col("rank").unique().drop_nulls()).collect()["rank"]:
                found.setdefault(rank, folder)
    return found
