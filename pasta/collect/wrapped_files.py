"""Importing the files that a vendor's tool left of a run into the trace of that run."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from pasta.collect.counters import Focus
from pasta.collect.importing import import_part
from pasta.collect.losses import Losses
from pasta.collect.part_rows import append_part
from pasta.collect.receive import Receiver
from pasta.collect.wrappers import Wrapper
from pasta.errors import InputError

_FIRST_ID = 1 << 48
"""Added to ids of a file, and again for the next, beyond those that other collectors gave out."""
_NOTHING = "the tool left no file to import"
_UNKNOWN = "files that this version of pasta has no importer for: kept"
_FAILED = "files that could not be imported: kept"


class WrappedFiles:
    """The files of one tool, as rows of a trace that is being recorded.

    Rows of a process that other collectors know are of its rank, all others of the launcher's.

    Args:
        wrapper: the tool.
        focus: what it is to look at.
        folder: where it writes, inside the trace; made here.
        receiver: what takes the rows.
        rank: rank of the launcher.
        pid: the launcher, on which losses are booked.
    """

    def __init__(
        self,
        wrapper: Wrapper,
        focus: Focus,
        folder: Path,
        receiver: Receiver,
        *,
        rank: int,
        pid: int,
    ) -> None:
        folder.mkdir(parents=True)
        self._wrapper = wrapper
        self._focus = focus
        self._folder = folder
        self._receiver = receiver
        self._rank, self._pid = rank, pid

    def around(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs `command` under the tool."""
        return self._wrapper.around(command, self._folder, self._focus)

    def add(self) -> list[str]:
        """Import what can be imported; return a line for each thing that cannot.

        A file is imported wholly or not at all, and stays where it is.
        """
        losses = Losses(self._wrapper.name)
        lines = self._wrapper.export(self._folder, self._focus, losses)
        files = sorted(self._folder.rglob(self._wrapper.files))
        for number, file in enumerate(files, 1):
            try:
                known = self._add(file, number * _FIRST_ID)
            except Exception as error:  # noqa: BLE001 - whatever it is, the trace must not be lost
                losses.fault(_FAILED)
                lines.append(f"{file}: kept, not imported: {_why(error, file)}")
                continue
            if not known:
                losses.skip(_UNKNOWN)
                lines.append(f"{file}: kept; this version of pasta has no importer for it")
        if not files and not lines:
            losses.fault(_NOTHING)
            lines.append(f"{self._wrapper.name}: left no {self._wrapper.files} in {self._folder}")
        self._receiver.append(self._rank, "loss", losses.rows(self._rank, self._pid))
        return lines

    def _add(self, file: Path, first_id: int) -> bool:
        """Import one file; tell whether there is an importer for it."""
        with tempfile.TemporaryDirectory(prefix=".importing-", dir=self._folder) as scratch:
            part = import_part(file, Path(scratch) / "part", self._rank)
            if part is None:
                return False
            append_part(part, self._receiver, self._rank, first_id)
        return True


def _why(error: Exception, file: Path) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, InputError):
        return text.removeprefix(f"{file}: ")
    return f"{type(error).__name__}: {text}"
