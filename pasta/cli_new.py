"""`pasta new`: begin a tool, stage, importer or collector of one's own."""

from __future__ import annotations

from pathlib import Path

import click

from pasta.cli_options import GivenPath
from pasta.new import KINDS, make


@click.group()
def new() -> None:
    """Write a tool, stage, importer or collector that works, to change into your own.

    Each comes with a page and a test. Inside a clone of pasta they go to where pasta keeps such things.

    \b
      pasta new tool mine && pasta run mine
    """  # noqa: D301 (\b keeps click from wrapping)


def _command(kind: str) -> click.Command:
    @new.command(kind, help=f"Write a working {kind} NAME with its page and its test.")
    @click.argument("name")
    @click.option(
        "--into",
        "folder",
        type=GivenPath(path_type=Path),
        default=Path(),
        help="Folder; by default this one.",
    )
    def command(name: str, folder: Path) -> None:
        made = make(kind, name, folder)
        for path in made.files:
            click.echo(f"wrote {_from_here(path)}")
        for hint in made.hints:
            click.echo(hint)

    return command


def _from_here(path: Path) -> Path:
    path, here = path.resolve(), Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


for _kind in KINDS:
    _command(_kind)
