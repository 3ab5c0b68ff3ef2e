"""Reading text line by line, whole or damaged.

Every printer of traces writes one thing a line, so that a line that is damaged costs no other.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from pasta.collect.containers.json_repair import valid_utf8
from pasta.collect.losses import Losses
from pasta.collect.sources import Source

LINE_BYTES_MAX = 1 << 20
_UNENDED = "the file ends within a line"


class TextLines:
    """The lines of a source, without their ends, in blocks.

    Args:
        source: what is read.
        losses: where damage is counted.
        longest: the bytes of a line that is kept; `None`: `LINE_BYTES_MAX`.

    Attributes:
        cut: whether the last line has no end, so that some of it may be missing.
    """

    def __init__(self, source: Source, losses: Losses, *, longest: int | None = None) -> None:
        self.cut = False
        self._longest = LINE_BYTES_MAX if longest is None else longest
        self._source = source
        self._losses = losses
        self._offset = 0

    def __iter__(self) -> Iterator[str]:
        """Yield the lines as text."""
        for block in self.blocks():
            lines = block.decode().split("\n")
            lines.pop()
            yield from (line.removesuffix("\r") for line in lines)

    def blocks(self) -> Iterator[bytes]:
        r"""Yield whole lines as valid UTF-8, each of them ended by `\n`."""
        rest = b""
        skipping = False
        for chunk in self._source.chunks:
            start = rest + (chunk if self._offset or rest else chunk.removeprefix(codecs.BOM_UTF8))
            if skipping:
                _, ended, start = start.partition(b"\n")
                skipping = not ended
            whole, ended, rest = start.rpartition(b"\n")
            if whole or ended:
                yield self._sound(whole + ended)
            if len(rest) > self._longest:
                reason = f"line longer than {self._longest >> 20} MiB: left out"
                self._losses.fault(reason, where=f"byte {self._offset}")
                rest, skipping = b"", True
            self._offset += len(chunk)
        if rest:
            self.cut = True
            yield self._sound(rest + b"\n")
        for damage in self._source.damage:
            self._losses.fault(damage)

    def report_cut(self, done: str) -> bool:
        """Count a last line that has no end; tell whether there is one.

        Args:
            done: what was done with it, as `left out`.
        """
        if self.cut:
            self._losses.fault(f"{_UNENDED}: {done}", where=f"byte {self._offset}")
        return self.cut

    def _sound(self, block: bytes) -> bytes:
        sound, count, first = valid_utf8(block)
        place = f"byte {self._offset + first}"
        self._losses.fault("invalid UTF-8: replaced by U+FFFD", count, where=place)
        return sound


def first_lines(source: Source, count: int) -> list[str]:
    """Return up to `count` lines from a source's first bytes, without the last, which may be cut.

    Text that is no UTF-8 is read with U+FFFD in place of what is none.
    """
    lines = source.head.removeprefix(codecs.BOM_UTF8).decode(errors="replace").split("\n")
    if source.plain_size != len(source.head):
        lines.pop()
    return [line.removesuffix("\r") for line in lines[:count]]
