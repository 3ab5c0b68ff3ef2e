"""A trace of several ranks, made of the shipped ones, in several files with small row groups."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from pasta.schema import arrow_schema
from pasta.tools.shipped import SHIPPED_TRACE
from pasta.trace import RANK_FOLDER, Trace, empty_table

ROW_GROUP = 150


def trace_of_ranks(folder: Path, ranks: int = 5) -> Trace:
    """Write a trace whose ranks differ: rank 1 lacks some spans, the last has no device."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        name = "gpt_cpu" if rank == ranks - 1 else "gpt_h100"
        source = Trace.open(SHIPPED_TRACE.parent / name)
        tables = {table: source.scan(table).collect() for table in source.tables()}
        if "kernel" in tables:
            tables["collective"] = collectives(tables["kernel"], rank)
        for table, rows in tables.items():
            kept = rows.with_columns(rank=pl.lit(rank, pl.Int32), ts=pl.col("ts") + 7 * rank) if "ts" in rows.columns else rows.with_columns(rank=pl.lit(rank, pl.Int32))  # fmt: skip
            if table == "span" and rank == 1:
                kept = kept.filter(pl.int_range(pl.len()) % 7 != 3)
            write(kept, table, folder / RANK_FOLDER.format(rank) / table)
    (folder / "trace.json").write_text(json.dumps({"schema_version": 1, "command": ["made"]}))
    return Trace.open(folder)


def collectives(kernels: pl.DataFrame, rank: int) -> pl.DataFrame:
    """Return a collective for every ninth kernel; rank 2 does not reach the last ones."""
    every = kernels.filter(pl.int_range(pl.len()) % 9 == 4).head(30 if rank == 2 else 50)
    common = [name for name in empty_table("collective").columns if name in every.columns]
    return every.select(
        *common,
        communicator=pl.lit("world"),
        sequence=pl.int_range(pl.len()).cast(pl.Int64),
        operation=pl.lit("all_reduce"),
        members=pl.lit([0, 1, 2, 3]),
    )


def write(rows: pl.DataFrame, table: str, folder: Path) -> None:
    """Write rows as two files."""
    folder.mkdir(parents=True)
    schema = arrow_schema(table)
    complete = pl.concat([empty_table(table), rows], how="diagonal_relaxed")
    half = complete.height // 2
    for number, part in enumerate((complete[:half], complete[half:])):
        arrow: pa.Table = part.select(schema.names).to_arrow().cast(schema)
        pq.write_table(arrow, folder / f"{number:06d}.parquet", row_group_size=ROW_GROUP)
