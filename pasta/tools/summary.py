"""The report of the tool `summary`: rows and time range of every table of every rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from pasta.pipeline.run import Source
from pasta.schema import TABLES
from pasta.tools.checks import trace_warnings
from pasta.tools.many_ranks import FEW_RANKS, add_sums
from pasta.tools.report import Report, TablePart, tool
from pasta.tools.units import human, printable
from pasta.trace_state import unfinished


@tool("summary")
def summary(report: Report, sources: Sequence[Source], _tables: Mapping[str, pl.DataFrame]) -> None:
    """Add rows per table and rank, totals, and how each trace was recorded."""
    counts = [_count(source, table) for source in sources for table in source.trace.tables()]
    rows = pl.concat([_NO_ROWS, *pl.collect_all(counts, engine="streaming")])
    start = pl.col("start_ts").min()
    rows = rows.with_columns(start_ns=pl.col("start_ts") - start, end_ns=pl.col("end_ts") - start)
    report.facts |= {
        "rows": rows["rows"].sum(),
        "ranks": rows.select("trace", "rank").n_unique(),
        "start_ts": rows["start_ts"].min(),
        "span_ns": rows["end_ns"].max(),
        "lost": 0,
    }
    for source in sources:
        report.facts["lost"] += int(source.trace.losses()["count"].sum())
        report.notes.append(_how_recorded(source))
    finished = not any(unfinished(source.trace) for source in sources)
    report.findings.append(_sentence(report, rows, finished=finished))
    for source in sources:
        own = rows.filter(pl.col("trace") == source.name)
        of_trace = f"{printable(source.name)}: " if len(sources) > 1 else ""
        report.findings += [of_trace + each for each in trace_warnings(source.trace, own)]
    shown = rows.drop("start_ts", "end_ts")
    many = shown.select("trace", "rank").n_unique() > FEW_RANKS
    if many:
        add_sums(report, sources, shown)
    title = "Rows by table and rank; times count from the start of the trace"
    report.parts.append(TablePart("tables", title, shown, limit=0 if many else 100))


_NO_ROWS = pl.DataFrame(
    schema={
        "trace": pl.String,
        "rank": pl.Int32,
        "table": pl.String,
        "rows": pl.Int64,
        "start_ts": pl.Int64,
        "end_ts": pl.Int64,
    }
)


def _count(source: Source, table: str) -> pl.LazyFrame:
    """Count the rows of one table by rank, with the time they span."""
    columns = {column.name for column in TABLES[table].columns}
    nothing = pl.lit(None, dtype=pl.Int64)
    start = pl.col("ts").min() if "ts" in columns else nothing
    lasting = pl.col("dur").fill_null(0) if "dur" in columns else 0
    end = (pl.col("ts") + lasting).max() if "ts" in columns else nothing
    # Polars itself counts to 2^32 - 1, and a table of accesses may have more rows.
    return (
        source.trace.scan(table)
        .with_columns(row=pl.lit(1, pl.Int64))
        .group_by("rank")
        .agg(pl.col("row").sum().alias("rows"), start.alias("s"), end.alias("e"))
        .sort("rank")
        .select(
            pl.lit(source.name).alias("trace"),
            "rank",
            pl.lit(table).alias("table"),
            "rows",
            pl.col("s").alias("start_ts"),
            pl.col("e").alias("end_ts"),
        )
    )


def _how_recorded(source: Source) -> str:
    info = source.trace.info
    parts = [f"{source.trace.path}: schema version {info['schema_version']}"]
    parts += [
        f"{key} {info[key]}" for key in ("format", "created", "state", "ended") if key in info
    ]
    command = info.get("command")
    if command:
        words = command if isinstance(command, list) else [command]
        parts.append("command: " + " ".join(map(str, words)))
    return ", ".join(parts)


def _sentence(report: Report, rows: pl.DataFrame, *, finished: bool) -> str:
    facts = report.facts
    tables = rows["table"].n_unique()
    lost = f"{facts['lost']:,} lost or doubtful, see below" if facts["lost"] else "nothing lost"
    if not finished:
        lost = f"not finished, see below; {lost} so far"
    timeless = facts["span_ns"] is None
    extent = "without a time" if timeless else f"over {human(facts['span_ns'], 'span_ns')}"
    return f"{facts['rows']:,} rows in {tables} tables of {facts['ranks']} rank(s) {extent}; {lost}"
