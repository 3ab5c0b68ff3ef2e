"""`pasta trace`: look into traces, join, merge and align them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pasta.cli_options import GivenPath
from pasta.cli_report import FORMATS, print_report

if TYPE_CHECKING:
    from pasta.trace import Trace


@click.group()
def trace() -> None:
    """Look into traces."""


@trace.command("info")
@click.argument("path", metavar="DIR|FILE")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def trace_info(path: str, form: str) -> None:
    """Show what a trace holds: rows per table and rank, how it was recorded, its losses."""
    from pasta import api

    print_report(api.run("summary", path), form)


def _opened(path: str) -> Trace:
    """Open a trace; where it was not finished, say so."""
    from pasta import api
    from pasta.trace_state import unfinished

    opened = api.open(path)
    if means := unfinished(opened):
        click.echo(f"pasta: {means}", err=True)
    return opened


@trace.command("rescue")
@click.argument("path", type=GivenPath(path_type=Path), metavar="DIR")
@click.option(
    "--gone", is_flag=True, help="What wrote it on another machine, or before a restart, is gone."
)
def trace_rescue(path: Path, *, gone: bool) -> None:
    """Complete a trace of a recording that was killed, with what that had written.

    A recording sees to it itself, except where all of its processes are killed at once, as by a batch system.
    """
    from pasta.collect.rescue import rescue

    rescued = rescue(path, gone=gone)
    tables = ", ".join(f"{table} {rescued.rows(table):,}" for table in rescued.tables())
    click.echo(f"completed {path} ({tables})")


@trace.command("join")
@click.argument("timeline", metavar="TIMELINE")
@click.argument("memory", metavar="MEMORY")
@click.option("-o", "--out", required=True, type=GivenPath(path_type=Path), help="New folder.")
def trace_join(timeline: str, memory: str, out: Path) -> None:
    """Join two runs of one program: a TIMELINE of its kernels, and what they did to MEMORY.

    Launches are matched by rank, process, stream, order, name and size. The new trace is the timeline
    run, with what the memory run knows of each launch.
    """
    from pasta import api

    joined = api.join(_opened(timeline), _opened(memory), out)
    for line in (*map(str, joined.shares), *joined.notes):
        click.echo(line)
    tables = ", ".join(f"{table} {count:,}" for table, count in joined.rows.items())
    click.echo(f"joined in {joined.path} ({tables})")


@trace.command("merge")
@click.argument("traces", nargs=-1, required=True, metavar="DIR|FILE...")
@click.option("-o", "--out", required=True, type=GivenPath(path_type=Path), help="New folder.")
@click.option("--renumber", is_flag=True, help="Number ranks anew, in the order of the traces.")
def trace_merge(traces: Sequence[str], out: Path, *, renumber: bool) -> None:
    """Make one trace of several that were recorded apart, as of the ranks of one run.

    Their clocks must agree. Traces of processes with the same rank and pid are refused; with --renumber
    each gets ranks of its own.
    """
    from pasta import api

    merged = api.merge([_opened(each) for each in traces], out, renumber=renumber)
    tables = ", ".join(f"{table} {count:,}" for table, count in merged.rows.items())
    click.echo(f"merged {len(traces)} traces in {merged.path}: {merged.ranks} ranks ({tables})")
    for note in merged.notes:
        click.echo(note)


@trace.command("align")
@click.argument("path", metavar="DIR|FILE")
@click.option("-o", "--out", required=True, type=GivenPath(path_type=Path), help="New folder.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def trace_align(path: str, out: Path, form: str) -> None:
    """Bring the clocks of all ranks to that of the first, as their collectives tell it.

    A collective such as an allreduce ends at nearly the same moment on all of its ranks. The new trace
    has all times of a rank shifted by the median of how much later its collectives end.
    """
    from pasta import api

    print_report(api.align(_opened(path), out), form)


@trace.command("sources")
@click.argument("path", metavar="DIR")
@click.option(
    "--below",
    multiple=True,
    type=GivenPath(),
    metavar="DIR",
    help="Only files in this folder (may be given often); for traces of other machines too.",
)
def trace_sources(path: str, below: Sequence[str]) -> None:
    """Pack the source files that call stacks name into a trace, for `pasta run source`.

    Works on the machine where the trace was recorded. Only files of source code are taken, up to 1 MiB
    each and 16 MiB in all, that have not changed since the recording began.
    """
    from pasta import api

    packed = api.pack_sources(path, below=below)
    click.echo(f"packed {packed.files:,} files, {packed.lines:,} lines, {packed.bytes:,} bytes")
    for reason, count in sorted(packed.left_out.items()):
        click.echo(f"left out {count:,}: {reason}")


@trace.command("export")
@click.argument("path", metavar="DIR|FILE")
@click.option("--to", required=True, metavar="FORMAT", help="See docs/exporting.md.")
@click.option(
    "-o",
    "--out",
    required=True,
    type=GivenPath(),
    metavar="FILE|DIR|ADDRESS",
    help="File, new folder, or address of a collector.",
)
def trace_export(path: str, to: str, out: str) -> None:
    """Write a trace in a FORMAT of other programs.

    \b
      perfetto    Perfetto's protobuf, for ui.perfetto.dev
      chrome      Chrome's JSON, as PyTorch's profiler writes it
      otlp        OpenTelemetry spans: a file, or http://host:4318/v1/traces
      speedscope  samples and spans of threads, for speedscope.app
      folded      collapsed stacks of samples, else of spans
      csv, arrow  a file for each table, in a new folder
      nvbit       raw accesses as NVBit's mem_trace prints them
    """  # noqa: D301 (\b keeps click from wrapping)
    from pasta import api

    exported = api.export(_opened(path), to, out)
    tables = ", ".join(f"{table} {count:,}" for table, count in exported.rows.items() if count)
    click.echo(f"exported to {out} ({tables or 'nothing'})")
    for reason, count in exported.losses.items():
        if count:
            click.echo(f"{count:,} {reason}")


@trace.command("schema")
@click.argument("tables", nargs=-1)
def trace_schema(tables: Sequence[str]) -> None:
    """Print every table (or TABLES) with the type, unit and meaning of each column."""
    from pasta.schema_text import schema_markdown

    click.echo(schema_markdown(tables))


@trace.command("sql")
@click.argument("path", metavar="DIR|FILE")
@click.argument("query")
@click.option(
    "--limit", type=click.IntRange(min=0), default=40, show_default=True,
    help="Rows of the text; 0: all.",
)  # fmt: skip
@click.option("--format", "form", type=FORMATS, default="text", show_default=True)
@click.option(
    "-o", "--out", type=GivenPath(path_type=Path), help="Write .parquet, .csv or .arrow instead."
)
def trace_sql(path: str, query: str, limit: int, form: str, out: Path | None) -> None:
    """Ask a trace what no tool asks: QUERY is SQL over its tables, as Polars understands it.

    \b
      pasta trace sql t "select name, count(*) n from kernel group by name order by n desc"
    """  # noqa: D301 (\b keeps click from wrapping)
    from pasta import api
    from pasta.tools.report import Report, TablePart
    from pasta.trace_sql import write_rows

    rows = api.sql(_opened(path), query)
    if out is not None:
        write_rows(rows, out)
        click.echo(f"{out}: {rows.height:,} rows")
        return
    report = Report("sql", query, {}, "cpu", {Path(path).name: path})
    report.parts.append(TablePart("rows", "Rows", rows, limit=limit or rows.height))
    print_report(report, form)
