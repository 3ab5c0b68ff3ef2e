"""`pasta regress`: thresholds on what two runs differ by, as an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from pasta.cli_options import GivenPath, pairs
from pasta.errors import ConfigError, PastaError


@click.command("regress")
@click.argument("thresholds", type=GivenPath(path_type=Path), metavar="THRESHOLDS.yaml")
@click.option(
    "--run",
    "runs",
    multiple=True,
    required=True,
    metavar="NAME=DIR|FILE",
    help="before=... and after=...; several of a side as before.1=..., before.2=...",
)
@click.option("--engine", default="auto", show_default=True, help="auto, cpu, gpu or dask.")
def regress(thresholds: Path, runs: Sequence[str], engine: str) -> None:
    """Compare two runs with the tool diff, and exit with 3 where a threshold is broken.

    Prints one line for each threshold that is broken or cannot be told.

    \b
    Exit codes:
      0  every threshold holds
      1  pasta failed
      2  a mistake: in the file, the options or a trace
      3  a threshold is broken
      4  none is, but some cannot be told: the steps are too few
    """  # fmt: skip # noqa: D301 (\b keeps click from wrapping)
    from pasta import api
    from pasta.tools.regress import ALL_ROWS, exit_code, judge
    from pasta.tools.thresholds import read_thresholds

    asked = read_thresholds(thresholds)
    named = pairs(runs, "--run")
    for side in ("before", "after"):
        name = str(asked.parameters.get(side, side))
        if not any(run == name or run.startswith(f"{name}.") for run in named):
            raise PastaError(f"--run: no run is named '{name}'; add --run {name}=DIR")
    try:
        api.check("diff", asked.parameters)
        report = api.run(
            "diff",
            runs=named,
            engine=engine,
            **{**asked.parameters, "top": ALL_ROWS},
        )
        outcomes = judge(asked.thresholds, report.tables, report.facts)
    except ConfigError as error:
        raise error.within(f"{thresholds}: ") from error
    for outcome in outcomes:
        if outcome.line:
            click.echo(outcome.line)
    sys.exit(exit_code(outcomes))
