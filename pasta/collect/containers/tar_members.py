"""The files in a tar archive, streamed: nothing is written to disk, and what a cut leaves is kept."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

_CHUNK_BYTES = 1 << 20
_BLOCK_BYTES = tarfile.BLOCKSIZE


@dataclass
class TarMember:
    """A regular file that is not empty.

    Attributes:
        name: as the archive has it.
        size: bytes that it should have.
        chunks: its content; to be consumed once, before the next member is asked for.
        damage: what ended the content early, empty while it is sound.
    """

    name: str
    size: int
    chunks: Iterator[bytes]
    damage: list[str] = field(default_factory=list)


class TarMembers:
    """Iterates over the members of an archive.

    Args:
        chunks: the archive, decompressed.
        damage: what ended the chunks early, empty while they are sound.

    Attributes:
        cut: why the archive has no proper end, once all members have been asked for; empty: it has.
    """

    def __init__(self, chunks: Iterator[bytes], damage: list[str]) -> None:
        self.cut = ""
        self._stream = _Stream(chunks)
        self._damage = damage

    def __iter__(self) -> Iterator[TarMember]:
        """Yield the members."""
        try:
            with tarfile.open(fileobj=self._stream, mode="r|") as tar:  # type: ignore[call-overload]
                for entry in tar:
                    content = tar.extractfile(entry) if entry.isfile() else None
                    if content is not None and entry.size:
                        yield self._member(entry, content)
                if not self._stream.is_end(tar.offset):
                    self.cut = self._described("its end is missing")
        except tarfile.TarError as error:
            self.cut = self._described(error)

    def _member(self, entry: tarfile.TarInfo, content: IO[bytes]) -> TarMember:
        member = TarMember(entry.name, entry.size, iter(()))
        member.chunks = self._content(content, member.damage)
        return member

    def _content(self, content: IO[bytes], damage: list[str]) -> Iterator[bytes]:
        try:
            while chunk := content.read(_CHUNK_BYTES):
                yield chunk
        except tarfile.TarError as error:
            damage.append(self._described(error))

    def _described(self, reason: object) -> str:
        told = "; ".join(self._damage) or str(reason)
        return f"the archive is cut or damaged ({told}), and what follows is missing"


class _Stream:
    """The file interface that `tarfile` needs, over chunks."""

    _KEPT_BYTES = 2 * tarfile.RECORDSIZE

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""
        self._given = 0
        self._recent = b""

    def read(self, size: int) -> bytes:
        while len(self._rest) < size:
            chunk = next(self._chunks, b"")
            if not chunk:
                break
            self._rest += chunk
        taken, self._rest = self._rest[:size], self._rest[size:]
        self._given += len(taken)
        self._recent = (self._recent + taken)[-self._KEPT_BYTES :]
        return taken

    def is_end(self, byte: int) -> bool:
        """Tell whether a block of zeros, which ends an archive, stands where no member could be read."""
        start = byte - (self._given - len(self._recent))
        return self._recent[start : start + _BLOCK_BYTES] == bytes(_BLOCK_BYTES)
