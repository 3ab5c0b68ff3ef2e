"""Files that tell more of a process which another file describes, such as execution traces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pasta.collect.importer import Completing
from pasta.collect.losses import Losses
from pasta.collect.sources import Source
from pasta.errors import InputError
from pasta.trace_writer import PartWriter

_RANK_IN_NAME = re.compile(r"(?:rank|worker)[-_.]?(\d{1,9})(?!\d)", re.IGNORECASE)


@dataclass
class Part:
    """One imported process.

    Attributes:
        name: of the source.
        importer: that read it.
        rank: of all its rows.
        told_by: what told the rank.
        pid: the process.
        writer: its tables.
        losses: one for each source.
        complete: whether another source has completed it.
    """

    name: str
    importer: str
    rank: int
    told_by: str
    pid: int
    writer: PartWriter
    losses: list[Losses] = field(default_factory=list)
    complete: bool = False

    def append_losses(self) -> None:
        """Append what was lost of all its sources."""
        for losses in self.losses:
            self.writer.append("loss", losses.rows(self.rank, self.pid))
        self.writer.finish()


def rank_in_name(source: Source) -> int | None:
    """Return the rank in a name such as `rank3.json` or `worker_3.json`."""
    found = _RANK_IN_NAME.search(Path(source.name.rpartition(":")[2]).name)
    return int(found[1]) if found else None


def part_of(source: Source, importer: Completing, parts: Sequence[Part]) -> Part:
    """Return the part that a source completes: by process, else by rank, else by order of files.

    Raises:
        InputError: there is none left for it.
    """
    known = [part for part in parts if part.importer == importer.completes]
    pid, rank = importer.process_of(source), rank_in_name(source)
    of_process = [part for part in known if part.pid == pid]
    of_rank = [part for part in known if part.rank == rank]
    if len(of_process) == 1:
        known = of_process
    elif rank is not None:
        known = of_rank
    left = [part for part in known if not part.complete]
    if not left:
        raise InputError(
            f"{source.name}: completes no other file that is given; give the"
            f" {importer.completes} file of the same process as well"
        )
    return left[0]
