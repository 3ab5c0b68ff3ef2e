"""The collectives in which ranks meet: none can end on one rank before it has begun on all."""

from __future__ import annotations

import polars as pl

from pasta.trace import Trace

SYNCHRONISING = ("allreduce", "allgather", "reducescatter", "alltoall", "barrier")
"""Operations that end at nearly the same moment on every rank; a broadcast or a send does not."""

MOST_MEETINGS = 1 << 22
"""Held at once, over all ranks; of more, every rank keeps the same share."""

_LATEST = 1 << 62
"""Times beyond it are no times, and their differences would overflow."""


def meetings(trace: Trace) -> dict[int, pl.DataFrame]:
    """Return the synchronising collectives of each rank.

    The columns are `communicator` and `meeting`, numbers that are the same on all ranks, `rows`, how
    many operations of any kind the communicator has, `counted`, whether their sequence was counted
    and not recorded, `operation`, `begin` and `end` in ns. What a rank has twice, as where
    communicators are unknown, is left out.
    """
    if not trace.has("collective"):
        return {}
    rows = trace.rows("collective")
    share = -(-rows // MOST_MEETINGS)
    ranks = trace.scan("collective").select(pl.col("rank").unique()).collect()["rank"]
    return {rank: _meetings(trace, rank, share) for rank in ranks.drop_nulls().sort()}


def _meetings(trace: Trace, rank: int, share: int) -> pl.DataFrame:
    members = pl.col("members").cast(pl.List(pl.String)).list.join(",").fill_null("")
    begin, end = pl.col("ts"), pl.col("ts") + pl.col("dur")
    communicator = pl.concat_str(pl.col("communicator").fill_null(""), members, separator="\0")
    rows = (
        trace.scan("collective", [rank])
        .filter(pl.col("rank") == rank)
        .with_columns(communicator.hash().alias("communicator"))
        .with_columns(pl.len().over("communicator").alias("rows"))
        .filter(
            pl.col("operation").is_in(SYNCHRONISING),
            pl.col("sequence").is_not_null(),
            pl.col("dur").is_between(0, _LATEST),
            pl.col("ts").is_between(-_LATEST, _LATEST),
        )
        .select(
            "communicator",
            "rows",
            pl.col("sequence_source").ne_missing("recorded").alias("counted"),
            "sequence",
            "operation",
            begin.alias("begin"),
            end.alias("end"),
        )
        .with_columns(pl.struct("communicator", "sequence").hash().alias("meeting"))
        .filter(pl.col("meeting") % share == 0)
        .drop("sequence")
        .collect(engine="streaming")
    )
    return rows.filter(pl.col("meeting").is_unique()).sort("begin", "meeting")
