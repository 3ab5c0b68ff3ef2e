"""Reports in Nsight Systems' own format: exported by an installed `nsys`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from pasta.collect.sources import Source, as_file
from pasta.errors import InputError

_SUFFIXES = (".nsys-rep", ".qdrep", ".qdstrm")
_REASON_CHARACTERS = 300


def is_report(source: Source) -> bool:
    """Tell whether a file is named as a report is, and is binary.

    The format is not documented and nothing is known of its first bytes.
    """
    name = source.name.lower().removesuffix(".gz")
    return source.folder is None and name.endswith(_SUFFIXES) and b"\0" in source.head


def exported(source: Source, scratch: Path) -> Path:
    """Return the SQLite file that `nsys` makes of a report.

    Args:
        source: the report.
        scratch: folder for the file; made if absent, to be removed by the caller.

    Raises:
        InputError: `nsys` is not installed, or refuses the report.
    """
    program = shutil.which("nsys")
    if program is None:
        raise InputError(
            f"{source.name}: is a report of Nsight Systems, which only nsys can read, and that is"
            " not on PATH; export it where it was recorded: nsys export --type sqlite FILE"
        )
    scratch.mkdir(parents=True, exist_ok=True)
    link, made = scratch / "report.nsys-rep", scratch / "report.sqlite"
    link.symlink_to(as_file(source, scratch).absolute())
    command = [program, "export", "--type", "sqlite", "--output", str(made), str(link)]
    done = subprocess.run(  # noqa: S603 - the program is the user's own nsys
        command, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode or not made.is_file():
        said = (done.stderr or done.stdout).decode(errors="replace")
        reason = " ".join(said.split())[-_REASON_CHARACTERS:] or f"exit code {done.returncode}"
        raise InputError(
            f"{source.name}: nsys does not export it ({reason}); use the nsys of the version that"
            " recorded it, or a newer one"
        )
    return made
