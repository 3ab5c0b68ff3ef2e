"""The commands `pasta system`: this machine as a graph, and runs on several hosts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pasta.cli_collect import selection, with_collect_options
from pasta.cli_options import GivenPath, Seconds
from pasta.errors import PastaError, naming_files
from pasta.system.cores import cores_text


@click.group("system")
def system() -> None:
    """Show a machine as a graph, and run a program on several hosts as one recording."""


@system.command("show")
@click.argument("source", type=GivenPath(path_type=Path), required=False, metavar="[SYSTEM.yaml]")
@click.option(
    "-o", "--out", type=GivenPath(path_type=Path), help="Write it to a file, which must not exist."
)
def show(*, source: Path | None, out: Path | None) -> None:
    """Print this machine as a graph of hosts, devices and links, or check SYSTEM.yaml.

    What is printed is where a system of several hosts begins.
    """
    from pasta.system.graph import System
    from pasta.system.local import local_entity
    from pasta.system.text import read_system, system_text

    text = system_text(System((local_entity(),)) if source is None else read_system(source))
    if out is None:
        click.echo(text, nl=False)
        return
    with naming_files(out), out.open("x", encoding="utf-8") as file:
        file.write(text)
    click.echo(f"wrote {out}")


@system.command("run")
@click.argument("source", type=GivenPath(path_type=Path), metavar="SYSTEM.yaml")
@with_collect_options
@click.option(
    "-o", "--out", required=True, type=GivenPath(path_type=Path), help="Folder of the new trace."
)
@click.option("--address", default="", help="What hosts reach this one by; default: its name.")
@click.option(
    "--wait", type=Seconds(min=1), default=60.0, show_default=True,
    help="Seconds that hosts may take to answer.",
)  # fmt: skip
@click.option(
    "--keep-going", is_flag=True, help="Let the other programs go on where that of one host fails."
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def run(
    *,
    source: Path,
    out: Path,
    address: str,
    wait: float,
    keep_going: bool,
    command: Sequence[str],
    **options: Any,
) -> None:
    """Run COMMAND on every host of SYSTEM.yaml under collectors, as one trace on one clock.

    Programs begin when the collectors of all hosts are ready. Each has PASTA_ENTITY (its host's name in
    the file), PASTA_ENTITY_INDEX (from 0) and PASTA_ENTITIES (how many) in its environment.

    \b
      pasta system run two.yaml --with torch -o t -- sh -c 'torchrun --nnodes 2 --node-rank $PASTA_ENTITY_INDEX ...'
    """  # noqa: D301 (\b keeps click from wrapping)
    from pasta.system.run import Request, run_system
    from pasta.system.text import read_system

    options.pop("live")
    with naming_files(out):
        request = Request(read_system(source), command, options, address, wait, keep_going)
        outcome = run_system(request, out, _say)
    for line in outcome.lines:
        _say(line)
    sys.exit(outcome.exit_code)


def _say(message: str) -> None:
    click.echo(f"pasta: {message}", err=True)


@system.command("member", hidden=True)
@click.argument("address")
@click.argument("name")
def member(*, address: str, name: str) -> None:
    """Take part in a run, as `pasta system run` starts it; its token is the first line of the input."""
    from pasta.system.local import local_entity
    from pasta.system.member import take_part
    from pasta.system.text import entity_document

    token = sys.stdin.readline().strip()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.exit(take_part(address, name, token, entity_document(local_entity()), record_task))


def record_task(task: Mapping[str, Any], out: Path, hold: Callable[[int], None]) -> Any:
    """Record what a member of a run is to run.

    Raises:
        PastaError: this machine lacks the cores, or the command cannot be recorded.
    """
    from pasta.collect.recording import record_command

    all_cores = os.sched_getaffinity(0)
    if task["collector_cores"]:
        _keep_to(0, task["collector_cores"])
    os.environ.update(task["environment"])

    def held(pid: int) -> None:
        _keep_to(pid, task["cores"] or all_cores)
        hold(pid)

    chosen = selection(dict(task["options"]))
    return record_command(task["command"], out, task["chosen"], chosen, hold=held)


def _keep_to(pid: int, cores: Collection[int]) -> None:
    """Let a process run on some cores only."""
    try:
        os.sched_setaffinity(pid, cores)
    except (OSError, ValueError) as error:
        raise PastaError(
            f"cores {cores_text(cores)}: this machine does not have them ({error})"
        ) from error
