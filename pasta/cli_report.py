"""Reports of tools on the command line: as text, as JSON, and as HTML pages; `pasta report`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pasta.allocator import keep_freed
from pasta.cli_options import GivenPath, pairs
from pasta.errors import PastaError
from pasta.whole_file import whole_file

if TYPE_CHECKING:
    from rich.console import Console

    from pasta.tools.html import Page
    from pasta.tools.report import Report

PLAIN_WIDTH = 120
"""Columns of the text where the output is no terminal."""

FORMATS = click.Choice(["text", "json", "html"])


def print_report(report: Report, form: str, out: Path | None = None) -> None:
    """Print a report, or write it as `TOOL.html` into `out` and say where."""
    if form == "html":
        from pasta.tools.html import Page

        page = Page([report.tool])
        page.add(report)
        path = (out or Path()) / f"{report.tool}.html"
        write_page(page, path, title=report.tool)
        click.echo(str(path))
    elif form == "json":
        from pasta.tools.json import render_json

        click.echo(render_json(report))
    else:
        from pasta.tools.text import print_report

        print_report(report, console())


def write_page(page: Page, path: Path, *, title: str) -> None:
    """Write a page into one HTML file, under a temporary name until it is complete.

    Raises:
        PastaError: the file cannot be written.
    """
    from pasta.collect.launch import command_text
    from pasta.tools.html import made_by

    text = page.render(title=title, made=made_by(command_text(["pasta", *sys.argv[1:]])))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PastaError(f"{path}: cannot be written ({error.strerror})") from error


def console() -> Console:
    """Return what text reports are printed on."""
    from rich.console import Console

    class PipeConsole(Console):
        """A console that tells its caller when nobody reads any more."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    width = None if sys.stdout.isatty() else PLAIN_WIDTH
    return PipeConsole(width=width, highlight=False, emoji=False)


@contextmanager
def _uncollected() -> Generator[None]:
    """Have collections walk what is loaded meanwhile once, in the end: they would take a quarter of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        gc.freeze()
        if enabled:
            gc.enable()


@click.command("report")
@click.argument("traces", nargs=-1, metavar="[DIR|FILE...]")
@click.option(
    "--run", "runs", multiple=True, metavar="NAME=DIR", help="A trace with a name of its own."
)
@click.option(
    "--tools",
    multiple=True,
    metavar="TOOL",
    help="A tool, or a folder of tools as xsp, instead of all tools in no folder.",
)
@click.option(
    "-o", "--out", required=True, type=GivenPath(path_type=Path), help="The page, as report.html."
)
@click.option("--engine", default="auto", show_default=True, help="auto, cpu, gpu or dask.")
def report_command(
    traces: Sequence[str], runs: Sequence[str], tools: Sequence[str], out: Path, engine: str
) -> None:
    """Run every shipped tool that the traces can feed, and write one HTML page of all."""
    keep_freed()
    from pasta import api
    from pasta.tools.html import Page

    named = pairs(runs, "--run")
    if not (traces or named):
        raise PastaError("name a trace, or several")
    with _uncollected():
        reports = api.reports(list(traces), runs=named, tools=tools, engine=engine)
    page = Page(reports.tools)
    for tool, report in reports.made:
        page.add(report, tool)
        del report  # its rows are not to lie beside those of the next tool
    write_page(page, out, title=", ".join([*named, *(Path(trace).name for trace in traces)]))
    for tool, why in reports.left_out.items():
        click.echo(f"{tool}: left out, {why}")
    click.echo(f"{out}: {len(reports.tools)} tools")
