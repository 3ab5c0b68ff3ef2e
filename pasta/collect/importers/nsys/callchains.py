"""Call stacks, which Nsight Systems stores frame by frame for each use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pasta.collect.importers.nsys.session import Batch, Integers, Session, constant, no_ids
from pasta.collect.importers.nsys.texts import taken

_STACK_ID_BITS = np.uint64(2)
_PRIME, _OTHER_PRIME = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT = np.uint64(29)


class Callchains:
    """The stacks of one table, each kept once.

    A stack's number is made of its frames, so that equal stacks have one number.

    Args:
        session: the export.
        table: the table of frames, in which 0 is the innermost.
    """

    def __init__(self, session: Session, table: str) -> None:
        self._session = session
        self._chains = np.zeros(0, dtype=np.int64)
        self._stack_of = np.zeros(0, dtype=np.uint64)
        self._frames: dict[int, tuple[Integers, Integers]] = {}
        self._written: set[tuple[int, int]] = set()
        self._read(table)

    def stacks(self, chains: Integers, pid: Integers) -> pa.Array[Any]:
        """Return the `stack_id` of each use, 0 where unknown, and write frames not yet written."""
        if not len(self._chains):
            return no_ids(len(chains))
        found = np.minimum(np.searchsorted(self._chains, chains), len(self._chains) - 1)
        stacks = np.where(self._chains[found] == chains, self._stack_of[found], np.uint64(0))
        uses = np.unique(np.stack([pid.astype(np.uint64), stacks]), axis=1)
        new = {(int(p), int(s)) for p, s in uses.T.tolist() if s} - self._written
        for process, stack in sorted(new):
            self._write(process, stack)
        return pa.array(stacks)

    def _read(self, table: str) -> None:
        rest: tuple[Integers, Integers, Integers] | None = None
        chains, stacks = [], []
        for batch in self._session.batches(table, "id", "symbol", "module", "stackDepth"):
            columns = _frames_in_order(batch)
            if rest is not None:
                columns = _joined(rest, columns)
            last = int(np.searchsorted(columns[0], columns[0][-1]))
            rest = _cut(columns, last, None)
            found = self._take(*_cut(columns, 0, last))
            chains.append(found[0])
            stacks.append(found[1])
        if rest is not None:
            found = self._take(*rest)
            chains.append(found[0])
            stacks.append(found[1])
            order = np.argsort(np.concatenate(chains), kind="stable")
            self._chains = np.concatenate(chains)[order]
            self._stack_of = np.concatenate(stacks)[order]

    def _take(
        self, chain: Integers, symbol: Integers, module: Integers
    ) -> tuple[Integers, NDArray[np.uint64]]:
        """Return the chains in some frames and their stacks; keep the frames of new ones."""
        if not len(chain):
            return chain, np.zeros(0, dtype=np.uint64)
        first = np.append(0, 1 + np.flatnonzero(chain[1:] != chain[:-1]))
        depth = np.arange(len(chain)) - np.repeat(first, np.diff(np.append(first, len(chain))))
        mixed = symbol.astype(np.uint64) * _PRIME + module.astype(np.uint64) * _OTHER_PRIME
        mixed = (mixed ^ mixed >> _SHIFT) * (depth.astype(np.uint64) * _PRIME | np.uint64(1))
        mixed = (mixed ^ mixed >> _SHIFT) * _OTHER_PRIME
        stacks = (np.add.reduceat(mixed, first) >> _STACK_ID_BITS) | np.uint64(1)
        ends = np.append(first[1:], len(chain))
        for stack, place in zip(*np.unique(stacks, return_index=True), strict=True):
            if int(stack) not in self._frames:
                rows = slice(first[place], ends[place])
                self._frames[int(stack)] = symbol[rows].copy(), module[rows].copy()
        return chain[first], stacks

    def _write(self, pid: int, stack: int) -> None:
        self._written.add((pid, stack))
        symbol, module = self._frames[stack]
        texts, count = self._session.texts, len(symbol)
        self._session.part.append(
            "frame",
            pa.table(
                {
                    "pid": constant(pid, count, pa.int64()),
                    "stack_id": constant(stack, count, pa.uint64()),
                    "depth": pa.array(np.arange(count - 1, -1, -1, dtype=np.int32)),
                    "function": taken(texts.values, texts.places(symbol)),
                    "file": constant("", count, pa.string()),
                    "line": constant(0, count, pa.int32()),
                    "language": constant("", count, pa.string()),
                    "library": taken(texts.values, texts.places(module)),
                }
            ),
        )


def _frames_in_order(batch: Batch) -> tuple[Integers, Integers, Integers]:
    chain, depth = batch.integers("id"), batch.integers("stackDepth")
    order = np.lexsort((depth, chain))
    symbol, module = batch.integers("symbol", -1), batch.integers("module", -1)
    return chain[order], symbol[order], module[order]


def _joined(
    rest: tuple[Integers, Integers, Integers], columns: tuple[Integers, Integers, Integers]
) -> tuple[Integers, Integers, Integers]:
    chain, symbol, module = (np.concatenate(pair) for pair in zip(rest, columns, strict=True))
    order = np.argsort(chain, kind="stable")
    return chain[order], symbol[order], module[order]


def _cut(
    columns: tuple[Integers, Integers, Integers], first: int, last: int | None
) -> tuple[Integers, Integers, Integers]:
    chain, symbol, module = (column[first:last] for column in columns)
    return chain, symbol, module
