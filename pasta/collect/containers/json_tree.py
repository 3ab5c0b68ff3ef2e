"""A JSON array of trees of any size, read node by node: objects that hold others in a list of one key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pasta.collect.losses import Losses
from pasta.errors import InputError

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|["{}\[\]]', re.DOTALL)
_NODE, _TREES, _OBJECT, _ARRAY = b"N", b"T", b"{", b"["
_CLOSES = {b"}": (_NODE, _OBJECT), b"]": (_TREES, _ARRAY)}
_DEPTH_MAX = 900
_NODE_BYTES_MAX = 4 << 20


class TreeNodes:
    """The nodes of the trees in one stream.

    Args:
        chunks: the stream's bytes.
        children: the key of the list of nodes in a node.
        losses: where damage is counted.
        damage: what ended the stream early, filled by whoever feeds it.
    """

    def __init__(
        self, chunks: Iterator[bytes], children: str, losses: Losses, damage: Sequence[str] = ()
    ) -> None:
        self._chunks = chunks
        self._key = f'"{children}"'.encode()
        self._losses = losses
        self._damage = damage
        self._buffer = b""
        self._at = self._dropped = 0
        self._open: list[bytes] = []
        self._texts: list[list[bytes]] = []
        self._begun = 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield depth and text of each node, after all in it; of its own nodes the text has none.

        Nodes in which the stream ends are there as `{}`.

        Raises:
            InputError: trees are too deep, or a node too large.
        """
        last = b""
        for token in self._tokens():
            inside = self._open[-1] if self._open else b""
            if token in (b"{", b"["):
                self._enter(token, inside, last)
            elif token in _CLOSES:
                if inside not in _CLOSES[token]:
                    break
                self._open.pop()
                if inside == _NODE:
                    yield len(self._texts) - 1, self._end_text()
                elif inside == _TREES:
                    self._begun = self._at - 1
                    if not self._open:
                        return
            last = token
        self._count_cut()
        for depth in reversed(range(len(self._texts))):
            yield depth, b"{}"

    def _tokens(self) -> Iterator[bytes]:
        """Yield brackets and texts; `_at` is where the last one ends."""
        while True:
            for found in _TOKEN.finditer(self._buffer, self._at):
                if found[0] == b'"':
                    break
                self._at = found.end()
                yield found[0]
            else:
                self._at = len(self._buffer)
            chunk = next(self._chunks, b"")
            if not chunk:
                return
            if self._texts and self._open[-1] != _TREES:
                self._texts[-1].append(self._buffer[self._begun : self._at])
            self._check_size()
            self._dropped += self._at
            self._buffer = self._buffer[self._at :] + chunk
            self._at = self._begun = 0

    def _enter(self, token: bytes, inside: bytes, last: bytes) -> None:
        if token == b"[" and (not self._open or (inside == _NODE and last == self._key)):
            if self._texts:
                self._texts[-1].append(self._buffer[self._begun : self._at])
            self._open.append(_TREES)
        elif token == b"{" and inside == _TREES:
            self._open.append(_NODE)
            self._texts.append([])
            self._begun = self._at - 1
        else:
            self._open.append(_OBJECT if token == b"{" else _ARRAY)
        if len(self._open) > 2 * _DEPTH_MAX:
            raise InputError(f"{self._losses.source}: JSON nested too deeply")

    def _end_text(self) -> bytes:
        self._texts[-1].append(self._buffer[self._begun : self._at])
        return b"".join(self._texts.pop())

    def _check_size(self) -> None:
        held = sum(map(len, self._texts[-1])) if self._texts else 0
        if len(self._buffer) - self._at + held > _NODE_BYTES_MAX:
            raise InputError(
                f"{self._losses.source}: a node of more than {_NODE_BYTES_MAX >> 20} MiB before"
                f" byte {self._dropped + self._at}; this is no tree of frames, or a damaged one"
            )

    def _count_cut(self) -> None:
        place = self._dropped + self._at
        cause = "; ".join(self._damage) or "damaged JSON"
        self._losses.fault(
            f"{cause}: what stands before is kept, all else is left out", where=f"byte {place}"
        )
