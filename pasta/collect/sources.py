"""Files to import, as streams: plain, gzip, the members of tar archives; and folders."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pasta.collect.containers.tar_members import TarMembers
from pasta.errors import InputError

CHUNK_BYTES = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_TRAILER_BYTES = 8
_TAR_MAGIC, _TAR_MAGIC_AT = b"ustar", 257
_HEAD_BYTES = 1 << 16


@dataclass
class Source:
    """One input stream, decompressed.

    Attributes:
        name: what messages call it; for a member of an archive `archive:member`.
        head: its first bytes, from which the format is told.
        chunks: its bytes from the start; to be consumed once.
        size: bytes on disk that it stands for.
        file: the file on disk, where the stream is all that it holds, compressed or not.
        folder: the folder, for a format that is one; there is no stream then.
        pieces: this file and others of the same process, for a format that has several.
        plain_size: bytes of the stream, as far as known; 0: unknown.
        damage: what ended the stream early, empty while it is sound.
        later: what damaged the archive behind this member; known once the next one is asked for.
        start: the byte of the plain content at which the chunks start.
    """

    name: str
    head: bytes
    chunks: Iterator[bytes]
    size: int
    file: Path | None = None
    folder: Path | None = None
    pieces: tuple[Path, ...] = ()
    plain_size: int = 0
    damage: list[str] = field(default_factory=list)
    later: list[str] = field(default_factory=list)
    start: int = 0


Progress = Callable[[int, int], None]
"""Called with the bytes read so far and the bytes there are, of files on disk."""


def open_sources(files: Sequence[Path], progress: Progress | None = None) -> Generator[Source]:
    """Yield each of `files` in turn; an archive yields its members, a folder itself.

    A source must be consumed before the next one is asked for.

    Raises:
        InputError: a file is absent, empty or unreadable.
    """
    total = sum(_checked_size(file) for file in files)
    done = 0
    for file in files:

        def report(read: int, before: int = done) -> None:
            if progress is not None:
                progress(before + read, total)

        yield from _open_file(file, report)
        done += _checked_size(file)
        if progress is not None:
            progress(done, total)


def as_file(source: Source, scratch: Path) -> Path:
    """Return a plain file on disk with what a source holds, for readers that need to seek.

    The source's own file where it is one, else a copy.

    Args:
        source: a file, or a member of an archive.
        scratch: folder for the copy; made if absent, to be removed by the caller.
    """
    if source.file is not None and is_plain_file(source):
        return source.file
    scratch.mkdir(parents=True, exist_ok=True)
    copy = scratch / "content"
    with copy.open("wb") as target:
        for chunk in source.chunks:
            target.write(chunk)
    return copy


def is_plain_file(source: Source) -> bool:
    """Tell whether a source is a file on disk that is not compressed."""
    if source.file is None:
        return False
    with source.file.open("rb") as stream:
        return not stream.read(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)


def files_of(folder: Path) -> list[Path]:
    """Return the files in a folder and those below it, sorted; links are not followed."""
    return sorted(
        Path(parent, name)
        for parent, _, names in os.walk(folder)
        for name in names
        if not Path(parent, name).is_symlink()
    )


def _checked_size(file: Path) -> int:
    try:
        if file.is_dir():
            return sum(member.stat().st_size for member in files_of(file))
        size = file.stat().st_size
        with file.open("rb"):
            pass
    except FileNotFoundError as error:
        raise InputError(f"{file}: no such file") from error
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from error
    if size == 0:
        raise InputError(f"{file}: empty file; write it again")
    return size


def open_from(file: Path, byte: int) -> Source:
    """Open a file to go on reading at about `byte` of its plain content.

    The chunks start there, or at 0 where the file is compressed.
    """
    stream = file.open("rb")
    source = Source(str(file), b"", iter(()), file.stat().st_size, file)
    if stream.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC:
        stream.seek(0)
        source.chunks = _gunzip(_read(stream, lambda _: None), source.damage)
    else:
        source.start = stream.seek(byte)
        source.chunks = _read(stream, lambda _: None)
    return source


def _open_file(file: Path, report: Callable[[int], None]) -> Iterator[Source]:
    if file.is_dir():
        yield Source(str(file), b"", iter(()), _checked_size(file), folder=file)
        return
    with file.open("rb") as stream:
        size = file.stat().st_size
        source = Source(str(file), b"", iter(()), size, file, plain_size=size)
        chunks = _read(stream, report)
        raw_head, chunks = _peek(chunks)
        if raw_head.startswith(_GZIP_MAGIC):
            chunks = _gunzip(chunks, source.damage)
            source.plain_size = _size_in_trailer(file)
        source.head, source.chunks = _peek(chunks)
        if not source.head:
            cause = "; ".join(source.damage) or "empty file once unpacked"
            raise InputError(f"{file}: {cause}; write it again")
        if source.head[_TAR_MAGIC_AT:].startswith(_TAR_MAGIC):
            yield from _members(file, source)
        else:
            yield source


def _read(stream: IO[bytes], report: Callable[[int], None]) -> Iterator[bytes]:
    read = 0
    while chunk := stream.read(CHUNK_BYTES):
        read += len(chunk)
        report(read)
        yield chunk


def _gunzip(chunks: Iterator[bytes], damage: list[str]) -> Iterator[bytes]:
    """Decompress a gzip stream of any number of members, keeping all that comes out."""
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
    read = 0
    for compressed in chunks:
        read += len(compressed)
        rest = compressed
        while rest:
            try:
                plain = inflate.decompress(rest, CHUNK_BYTES)
            except zlib.error as error:
                damage.append(f"the gzip data is damaged before byte {read} ({error})")
                return
            if plain:
                yield plain
            rest = inflate.unconsumed_tail
            if inflate.eof:
                rest = inflate.unused_data
                if rest.strip(b"\0"):
                    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
                else:
                    rest = b""
    if not inflate.eof:
        if plain := inflate.flush():
            yield plain
        damage.append(f"the gzip data ends early, at byte {read}")


def _size_in_trailer(file: Path) -> int:
    """Return the size that a gzip file says it has decompressed, modulo 4 GiB; 0 where it is cut."""
    with file.open("rb") as stream:
        if stream.seek(0, io.SEEK_END) < _GZIP_TRAILER_BYTES:
            return 0
        stream.seek(-4, io.SEEK_END)
        return int.from_bytes(stream.read(4), "little")


def _peek(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Return the first bytes of a stream, and the whole stream again."""
    first = b""
    for chunk in chunks:
        first += chunk
        if len(first) >= _HEAD_BYTES:
            break

    def whole() -> Iterator[bytes]:
        yield first
        yield from chunks

    return first[:_HEAD_BYTES], whole()


def _members(file: Path, archive: Source) -> Iterator[Source]:
    """Yield the files of a tar archive; where it is cut between two, the one before tells it."""
    last: Source | None = None
    members = TarMembers(archive.chunks, archive.damage)
    for member in members:
        source = Source(f"{file}:{member.name}", b"", iter(()), member.size, damage=member.damage)
        source.head, source.chunks = _peek(member.chunks)
        if source.head.startswith(_GZIP_MAGIC):
            source.head, source.chunks = _peek(_gunzip(source.chunks, source.damage))
        if source.head:
            last = source
            yield source
    if last is None:
        cause = members.cut or "archive without a file that holds anything"
        raise InputError(f"{file}: {cause}; write it again")
    if members.cut and not last.damage:
        last.later.append(members.cut)
