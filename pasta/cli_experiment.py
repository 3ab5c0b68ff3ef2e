"""The command `pasta experiment`: one program at several levels, several times."""

from __future__ import annotations

from pathlib import Path

import click

from pasta.cli_options import GivenPath
from pasta.cli_report import FORMATS, print_report
from pasta.errors import naming_files


@click.group("experiment")
def experiment() -> None:
    """Run a program at several collection levels and compare what they see and cost."""


@experiment.command("run")
@click.argument("source", type=GivenPath(path_type=Path), metavar="EXPERIMENT.yaml")
@click.option(
    "-o", "--out", type=GivenPath(path_type=Path),
    help="Folder of the traces and results; by default the experiment's name.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print the runs that are to be made, and make none.")
@click.option("--format", "form", type=FORMATS, default="text", show_default=True)
def run(source: Path, out: Path | None, form: str, *, dry_run: bool) -> None:
    """Make the runs of EXPERIMENT.yaml and report on them.

    Runs that are there already are not made again: an experiment that was interrupted goes on.
    """
    from pasta.api import write_outputs
    from pasta.experiment.plan import read_experiment
    from pasta.experiment.results import report
    from pasta.experiment.running import RUNS, alone_in, check_folder, make_runs, prepare, to_do
    from pasta.tools.units import printable

    def say(message: str) -> None:
        click.echo(f"pasta: {printable(message)}", err=True)

    planned = read_experiment(source)
    folder = Path(planned.name) if out is None else out
    with naming_files(folder):
        check_folder(planned, folder)
    if dry_run:
        for each in to_do(planned, folder):
            click.echo(printable(f"{each}: {each.line}"))
        return
    with naming_files(folder), alone_in(folder):
        prepare(planned, source, folder)
        make_runs(to_do(planned, folder), folder, say)
        found, tables = report(planned, folder / RUNS)
        results = folder / "results"
        results.mkdir(exist_ok=True)
        write_outputs(tables, results)
        print_report(found, form, folder)
    if form == "text":
        click.echo(f"traces and results in {folder}")
