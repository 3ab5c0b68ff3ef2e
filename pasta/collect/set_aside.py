"""Members of archives that only their neighbours, or all of their bytes, tell the format of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pasta.collect.containers.arrow_files import is_arrow_or_parquet
from pasta.collect.containers.sqlite_pages import MAGIC as SQLITE_MAGIC
from pasta.collect.importer import recognised
from pasta.collect.sources import CHUNK_BYTES, Source, is_plain_file

_LONGEST_NAME = 200

Key = tuple[str, str]


@dataclass(frozen=True)
class _Member:
    """A member of an archive, written to disk."""

    name: str
    head: bytes
    file: Path
    damage: list[str]

    def alone(self) -> Source:
        """Return it as a source of its own."""
        size = self.file.stat().st_size
        chunks = _chunks_of(self.file)
        return Source(self.name, self.head, chunks, size, self.file, damage=self.damage)


class SetAside:
    """Keeps streams on disk until all of them are there, then yields what they are together.

    These are the files of one process, tables that are those of a folder, and databases whose first
    bytes do not name their tables. Of two members of one name the later one counts, as in an
    archive that is unpacked.

    Args:
        folder: where they are kept; made if needed, to be removed by the caller.
        key_of: returns the importer that gathers a source, and what it is gathered by.
    """

    def __init__(self, folder: Path, key_of: Callable[[Source], Key | None]) -> None:
        self._folder = folder
        self._key_of = key_of
        self._groups: dict[Key | str, dict[str, _Member]] = {}

    def takes(self, source: Source) -> bool:
        """Keep a source if it is of that kind, and tell whether it was."""
        if source.folder is not None or is_plain_file(source):
            return False
        key = self._key_of(source) if source.file is None else None
        if key is None and not _says_little(source):
            return False
        where = PurePosixPath(source.name)
        group = key or str(where.parent)
        folder = self._folder / str(list({**self._groups, group: {}}).index(group))
        folder.mkdir(parents=True, exist_ok=True)
        kept = self._groups.setdefault(group, {})
        name = _file_name(where.name)
        if source.name not in kept and (folder / name).exists():
            name = f"{len(kept)}-{name}"
        member = _Member(source.name, source.head, folder / name, source.damage)
        with member.file.open("wb") as target:
            for chunk in source.chunks:
                target.write(chunk)
        kept[source.name] = member
        return True

    def sources(self) -> Iterator[Source]:
        """Yield what was kept: processes, folders, and what stands for itself."""
        for group, kept in self._groups.items():
            members = list(kept.values())
            if isinstance(group, str):
                yield from _folder_or_files(group, members)
            else:
                yield _process(members)


def _file_name(name: str) -> str:
    """Return the last part of a member's name, of which one without a folder follows the archive's."""
    own = name.rpartition(":")[2][-_LONGEST_NAME:]
    return "unnamed" if own in ("", ".", "..") else own


def _says_little(source: Source) -> bool:
    """Tell whether a source is of a container that holds formats which it does not show."""
    of_folder = source.file is None and is_arrow_or_parquet(source.head)
    contained = of_folder or source.head.startswith(SQLITE_MAGIC)
    return contained and recognised(source) is None


def _process(members: list[_Member]) -> Source:
    """Return the files of one process as one source."""
    source = members[0].alone()
    source.pieces = tuple(member.file for member in members)
    source.size = sum(file.stat().st_size for file in source.pieces)
    source.later = _damage(members)
    return source


def _folder_or_files(name: str, members: list[_Member]) -> Iterator[Source]:
    """Yield the folder that members lay in, if it is of a known format, else each of them."""
    size = sum(member.file.stat().st_size for member in members)
    folder = members[0].file.parent
    source = Source(name, b"", iter(()), size, folder=folder, later=_damage(members))
    if recognised(source) is not None:
        yield source
    else:
        for member in members:
            yield member.alone()


def _chunks_of(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


def _damage(members: list[_Member]) -> list[str]:
    return [f"{member.name}: {damage}" for member in members for damage in member.damage]
