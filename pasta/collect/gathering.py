"""Several files of one process as one source: what a profiler writes into a file for each kind of record."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from pasta.collect.importer import IMPORTERS
from pasta.collect.set_aside import Key, SetAside
from pasta.collect.sources import Progress, Source, open_sources


@runtime_checkable
class Gathering(Protocol):
    """An importer of formats that spread a process over several files.

    Its `read` finds them in `source.pieces`.
    """

    def piece_of(self, source: Source) -> str | None:
        """Return what the files of one process have in common; `None`: it is no such file.

        `source.chunks` must not be touched.
        """


def gathered_sources(
    files: Sequence[Path], scratch: Path, progress: Progress | None = None
) -> Iterator[Source]:
    """Yield what `open_sources` yields, but files of one process, or of a folder, as one source.

    Args:
        files: files, archives and folders.
        scratch: folder for members of archives; made if needed, to be removed by the caller.
        progress: called with the bytes read so far and the total.

    Raises:
        InputError: a file is absent, empty or unreadable.
    """
    groups = _groups(files)
    firsts = {pieces[0]: tuple(pieces) for pieces in groups}
    aside = SetAside(scratch, _piece_key)
    for source in open_sources([pieces[0] for pieces in groups], progress):
        if aside.takes(source):
            continue
        if source.file in firsts:
            source.pieces = firsts[source.file]
            source.size = sum(file.stat().st_size for file in source.pieces)
        yield source
    yield from aside.sources()


def _groups(files: Sequence[Path]) -> list[list[Path]]:
    """Return the files, those of one process together, in order of the first of each."""
    groups: dict[Key | int, list[Path]] = {}
    for place, file in enumerate(files):
        groups.setdefault(_key(file) or place, []).append(file)
    return list(groups.values())


def _key(file: Path) -> Key | None:
    with contextlib.closing(open_sources([file])) as sources:
        source = next(sources)
        return None if source.file is None else _piece_key(source)


def _piece_key(source: Source) -> Key | None:
    """Return the importer that gathers a source, and what it gathers it by; `None`: nobody does."""
    for name in IMPORTERS:
        found = IMPORTERS.get(name)
        key = found.piece_of(source) if isinstance(found, Gathering) else None
        if key is not None:
            return name, key
    return None
