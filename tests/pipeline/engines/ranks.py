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


def trace_of_one(folder: Path) -> Trace:
    """Write a trace of one rank that has a device, and accesses of it."""
    both = trace_of_ranks(folder / "both", 2)
    rank = RANK_FOLDER.format(0)
    (folder / "one").mkdir()
    for name in ("trace.json", rank):
        (both.path / name).rename(folder / "one" / name)
    one = Trace.open(folder / "one")
    write(accesses(one), "access", one.path / rank / "access")
    return Trace.open(one.path)


def accesses(trace: Trace) -> pl.DataFrame:
    """Return a warp's request to each of some objects, and beyond them, for every kernel."""
    objects = trace.scan("memory").filter(space="device", event="allocate").select("address").head(40).collect()["address"]  # fmt: skip
    kernels = trace.scan("kernel").select("rank", "pid", "device", "launch_id").collect()
    lanes = pl.DataFrame({"lane": range(32)}, schema={"lane": pl.UInt8})
    rows = kernels.join(lanes, how="cross", maintain_order="left_right").with_row_index("row")
    row = pl.col("row")
    return rows.select(
        "rank",
        "pid",
        "device",
        "launch_id",
        request=(row // 32 % 7).cast(pl.UInt64),
        lane=(row % 32).cast(pl.UInt8),
        pc=(row // 32 % 5 * 16).cast(pl.UInt32),
        address=pl.lit(objects).gather(row // 96 % len(objects))
        + (row * 37 % 5000).cast(pl.UInt64),
        bytes=pl.lit(4, pl.UInt32),
        op=(row // 32 % 3 % 2).cast(pl.UInt8),
        space=(row // 32 % 11 // 10).cast(pl.UInt8),
        warp=(row // 32 % 4).cast(pl.UInt32),
        block=(row // 32 % 3).cast(pl.UInt64),
    )


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
