"""`pasta include`: where compilers find the header by which programs mark regions."""

from __future__ import annotations

from pathlib import Path

import click

from pasta.cli_options import GivenPath
from pasta.errors import PastaError


@click.command("include")
@click.option(
    "-o",
    "--out",
    type=GivenPath(path_type=Path),
    metavar="FILE",
    help="Write the header as one file instead, to keep in a program's own sources.",
)
def include(*, out: Path | None) -> None:
    """Print the folder of pasta.h, by which programs in any language mark regions.

    \b
      cc -I"$(pasta include)" program.c
    """  # noqa: D301 (\b keeps click from wrapping)
    from pasta.collect.regions import INCLUDE, single_header

    if out is None:
        click.echo(str(INCLUDE))
        return
    try:
        out.write_text(single_header(), encoding="utf-8")
    except OSError as error:
        raise PastaError(
            f"{out}: cannot be written ({error.strerror}); choose another -o"
        ) from None
    click.echo(f"wrote {out}")
