"""What an importer is, and the registry of importers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from pasta.collect.losses import Losses
from pasta.collect.sources import Source
from pasta.registry import Registry
from pasta.trace_merge import Transform
from pasta.trace_writer import PartWriter


@dataclass
class Imported:
    """What an importer knows once it has read a source.

    Attributes:
        rank: the rank that the source says it is of; `None`: it does not say.
        pid: the process that losses are booked on.
        transforms: applied to tables when they are sorted, slice after slice in order of `ts`.
        shift_ns: added to the times of losses, as the transforms add it to those of rows.
    """

    rank: int | None = None
    pid: int = 0
    transforms: Mapping[str, Transform] = field(default_factory=dict)
    shift_ns: int = 0


class Importer(Protocol):
    """A reader of one foreign format.

    Attributes:
        format: the format's name, for messages.
        version: raised whenever the same input gives other rows; part of the cache's key.
        general: whether it takes whatever is of its container, and so is asked after the others.
    """

    format: str
    version: int
    general: bool

    def recognises(self, source: Source) -> bool:
        """Tell from the first bytes, decompressed, or a folder's content whether it is this one's.

        `source.chunks` must not be touched.
        """

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append the source's rows to `part`, with `rank` left out, and count what is lost.

        Raises:
            InputError: nothing of the source can be read, or anything cannot in strict mode.
        """


class Completing(Importer, Protocol):
    """An importer of files that tell more of a process that another file describes.

    Its `read` refuses a file that comes alone.

    Attributes:
        completes: the importer of that other file.
    """

    completes: str

    def process_of(self, source: Source) -> int | None:
        """Return the pid of the process that the source is of; `None`: it does not say.

        `source.chunks` must not be touched.
        """

    def complete(self, source: Source, part: PartWriter, losses: Losses) -> Mapping[str, Transform]:
        """Add what the source tells to `part`, which is finished.

        Returns:
            Transforms of the tables that were appended to, which must not be of the part already.

        Raises:
            InputError: as `read` does.
        """


IMPORTERS: Registry[Importer] = Registry("importer", "pasta.collect.importers")


def recognised(source: Source) -> tuple[str, Importer] | None:
    """Return name and importer of the format that a source is of; `None`: it is of none that is known."""
    candidates = [(name, IMPORTERS.get(name)) for name in IMPORTERS]
    candidates.sort(key=lambda candidate: candidate[1].general)
    return next((known for known in candidates if known[1].recognises(source)), None)


I = TypeVar("I", bound=Importer)  # noqa: E741


def importer(name: str) -> Callable[[type[I]], type[I]]:
    """Register a class as the importer `name`.

    An importer is made once, without arguments, and keeps no state between sources.
    """

    def register(kind: type[I]) -> type[I]:
        IMPORTERS.add(name, kind())
        return kind

    return register
