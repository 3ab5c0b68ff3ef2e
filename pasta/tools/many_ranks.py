"""What a trace of many ranks holds, in as many lines as one of few: sums, and the ranks that are unlike most."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from pasta.pipeline.run import Source
from pasta.tools.checks.words import of
from pasta.tools.report import Report, TablePart

FEW_RANKS = 8
"""Of so many, people read the rows of each."""

_NAMED = 8
_NUMBER = re.compile(r"\d+")
_UNKNOWN = "unknown"
_RANK = ["trace", "rank"]


def add_sums(report: Report, sources: Sequence[Source], rows: pl.DataFrame) -> None:
    """Add the tables summed over ranks, and which ranks are unlike most.

    Args:
        report: to add to.
        sources: the traces.
        rows: `trace`, `rank`, `table`, `rows`, `start_ns` and `end_ns` of each table of each rank.
    """
    title = "Rows by table, of all ranks; times count from the start of the trace"
    report.parts.append(TablePart("sums", title, _sums(rows), limit=100))
    found = pl.concat([_other_losses(sources, rows), _other_counts(rows)])
    if found.height:
        report.findings.append(_sentence(rows, found))
    title = "Ranks that are unlike most of their trace"
    report.parts.append(TablePart("unlike", title, _by_what(found), limit=40))


def one_of_alike(warnings: Sequence[str]) -> list[str]:
    """Return warnings; of many, those that differ in their numbers alone are one, which counts the others."""
    if len(warnings) <= FEW_RANKS:
        return list(warnings)
    alike: dict[str, list[str]] = {}
    for warning in warnings:
        alike.setdefault(_NUMBER.sub("#", warning), []).append(warning)
    return [
        first + (f" (and {len(others):,} such of other numbers)" if others else "")
        for first, *others in alike.values()
    ]


def clocks(rows: pl.DataFrame) -> TablePart:
    """Return the table of clocks; of many ranks, those that are farthest off come first.

    Args:
        rows: one for each rank, ascending, with `offset_ns` against the first.
    """
    title = "Clocks of ranks against that of the first, and what was added to their times"
    if rows.height > FEW_RANKS:
        title += ", the farthest first"
        rows = rows.sort(pl.col("offset_ns").abs(), descending=True, maintain_order=True)
    return TablePart("clocks", title, rows, limit=FEW_RANKS)


def _sums(rows: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each table: ranks that have it, their rows, and the least and most of one of them."""
    return rows.group_by("trace", "table", maintain_order=True).agg(
        ranks=pl.len(),
        rows=pl.col("rows").sum(),
        least_rows=pl.col("rows").min(),
        most_rows=pl.col("rows").max(),
        start_ns=pl.col("start_ns").min(),
        end_ns=pl.col("end_ns").max(),
    )


def _other_counts(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the ranks whose tables have less than half or more than twice the median of all ranks."""
    own = rows.filter(pl.col("table") != "loss")
    tables = own.select("trace", "table").unique()
    every = rows.select(_RANK).unique().join(tables, on="trace")
    known = every.join(own, on=[*_RANK, "table"], how="left", nulls_equal=True)
    count, usual = pl.col("rows").fill_null(0), pl.col("usual")
    median = pl.col("rows").quantile(0.5, "higher").cast(pl.Int64)
    counted = known.select(*_RANK, "table", count).with_columns(usual=median.over("trace", "table"))
    how = (
        pl.when(usual == 0)
        .then(pl.lit("rows, of which most have none"))
        .when(pl.col("rows") == 0)
        .then(pl.format("no row, where the median is {}", usual))
        .when(pl.col("rows") * 2 < usual)
        .then(pl.format("under half of the median of {} rows", usual))
        .otherwise(pl.format("over twice the median of {} rows", usual))
    )
    unlike = counted.filter((pl.col("rows") * 2 < usual) | (pl.col("rows") > usual * 2))
    return unlike.sort("table", *_RANK).select(*_RANK, what=pl.format("{}: {}", "table", how))


def _other_losses(sources: Sequence[Source], rows: pl.DataFrame) -> pl.DataFrame:
    """Return the ranks that lose what at most half of the ranks of their trace lose."""
    found = [_NOTHING]
    for source in sources:
        if not source.trace.has("loss"):
            continue
        kind = pl.col("reason").fill_null("unknown").str.replace_all(_NUMBER.pattern, "#")
        lost = source.trace.scan("loss").select("rank", "reason", kind=kind).collect()
        each = lost.group_by("rank", "kind").agg(pl.col("reason").first())
        ranks = rows.filter(pl.col("trace") == source.name)["rank"].n_unique()
        rare = each.filter(pl.len().over("kind") * 2 <= ranks)
        first = pl.col("reason").fill_null("unknown").sort_by("rank").first().over("kind")
        what = pl.format("lost or doubtful: {}", first)
        found.append(
            rare.sort("rank", "kind").select(
                pl.lit(source.name).alias("trace"), "rank", what.alias("what")
            )
        )
    return pl.concat(found)


_NOTHING = pl.DataFrame(schema={"trace": pl.String, "rank": pl.Int32, "what": pl.String})


def _by_what(found: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each thing that is unlike, with how many ranks it is so of, and which."""
    which = pl.col("rank").sort().cast(pl.String).fill_null(_UNKNOWN).str.join(", ")
    return (
        found.group_by("trace", "what", maintain_order=True)
        .agg(ranks=pl.len(), which=which)
        .sort("ranks", descending=True, maintain_order=True)
    )


def _sentence(rows: pl.DataFrame, found: pl.DataFrame) -> str:
    rank = pl.col("rank").cast(pl.String).fill_null(_UNKNOWN)
    name = rank if rows["trace"].n_unique() == 1 else pl.format("{} of {}", rank, "trace")
    ranks = found.select(_RANK).unique().sort(_RANK).select(name).to_series().to_list()
    named = ", ".join(ranks[:_NAMED]) + (", ..." if len(ranks) > _NAMED else "")
    number = of(len(ranks), rows.select(_RANK).n_unique(), "ranks")
    return f"{number} lose other things than most, or have far fewer or more rows, see below: rank {named}"
