"""The files in a tar archive, streamed: nothing is written to disk, and what a cut leaves is kept."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

_CHUNK_BYTES = 1 << 20
_PIECE_BYTES = tarfile.RECORDSIZE
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
        member.chunks = self._content(entry, content, member.damage)
        return member

    def _content(
        self, entry: tarfile.TarInfo, content: IO[bytes], damage: list[str]
    ) -> Iterator[bytes]:
        """Yield the content in large chunks, of small ones, since a cut one is not given out at all."""
        chunk = bytearray()
        read = 0
        try:
            while piece := content.read(_PIECE_BYTES):
                chunk += piece
                read += len(piece)
                if len(chunk) >= _CHUNK_BYTES:
                    yield bytes(chunk)
                    chunk.clear()
        except tarfile.TarError as error:
            damage.append(self._described(error))
            chunk += self._stream.since(entry.offset_data + read)
        if chunk:
            yield bytes(chunk)

    def _described(self, reason: object) -> str:
        told = "; ".join(self._damage) or str(reason)
        return f"the archive is cut or damaged ({told}), and what follows is missing"


class _Stream:
    """The file interface that `tarfile` needs, over chunks."""

    _KEPT_BYTES = 2 * tarfile.RECORDSIZE

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._chunk = b""
        self._at = 0
        self._given = 0
        self._recent = b""

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, or at the end what is left."""
        taken = self._chunk[self._at : self._at + size]
        self._at += len(taken)
        while len(taken) < size and (chunk := next(self._chunks, b"")):
            self._chunk, self._at = chunk, min(size - len(taken), len(chunk))
            taken += chunk[: self._at]
        self._given += len(taken)
        self._recent = (self._recent + taken)[-self._KEPT_BYTES :]
        return taken

    def is_end(self, byte: int) -> bool:
        """Tell whether a block of zeros, which ends an archive, stands where no member could be read."""
        return self.since(byte)[:_BLOCK_BYTES] == bytes(_BLOCK_BYTES)

    def since(self, byte: int) -> bytes:
        """Return what was given out last, from `byte` of the stream on."""
        return self._recent[max(byte - self._given + len(self._recent), 0) :]
