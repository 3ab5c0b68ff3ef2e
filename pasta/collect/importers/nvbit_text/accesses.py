"""Rows of `access` from the lines of warps, a block of lines at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pasta.collect.importers.nvbit_text.addresses import (
    LANES,
    REGULAR,
    odd_addresses,
    regular_addresses,
)
from pasta.collect.importers.nvbit_text.launches import Launches
from pasta.collect.importers.nvbit_text.lines import Instruction, instruction_of
from pasta.collect.losses import Losses
from pasta.trace_writer import PartWriter

_KNOWN_MAX = 1 << 16
_BETWEEN = b" - "


@dataclass
class _Warps:
    """The instructions of warps in one block of text, and the text of their addresses."""

    texts: list[bytes] = field(default_factory=list)
    columns: list[tuple[Any, ...]] = field(default_factory=list)


class Accesses:
    """Turns the lines of accesses into rows.

    Args:
        part: where rows go.
        losses: where what is left out is counted.
        launches: the launches that accesses belong to.
    """

    def __init__(self, part: PartWriter, losses: Losses, launches: Launches) -> None:
        self._part = part
        self._losses = losses
        self._launches = launches
        self._known: dict[bytes, Instruction | None] = {}
        self._requests: dict[int, int] = {}
        self._last = 0
        self._warps = _Warps()

    def take(self, line: bytes) -> bool:
        """Take a line; tell whether it is one of an access."""
        prefix, _, text = line.rstrip().rpartition(_BETWEEN)
        instruction = self._instruction(prefix)
        if instruction is None:
            return False
        if instruction.opcode is None:
            self._losses.skip("access by an instruction of no known kind: left out")
            return True
        launch = self._launches.of(instruction)
        if launch < self._last:
            self._losses.skip("launches that run at the same time: their accesses are not in order")
        self._last = launch
        request = self._requests.get(launch, 0)
        self._requests[launch] = request + 1
        block = self._launches.block_of(launch, instruction.cta)
        self._warps.texts.append(text)
        self._warps.columns.append(
            (launch, request, instruction.pc, block, instruction.warp, *instruction.opcode)
        )
        return True

    def flush(self) -> None:
        """Append the rows of the lines that have been taken since the last call."""
        warps, self._warps = self._warps, _Warps()
        if not warps.texts:
            return
        addresses, sound = self._addresses(warps.texts)
        self._losses.fault(
            "access whose addresses are damaged: left out",
            int((~sound).sum()),
            where=repr(warps.texts[int(np.argmin(sound))][:40]),
        )
        row, lane = np.nonzero((addresses != 0) & sound[:, np.newaxis])
        self._append(warps.columns, row, lane, addresses[row, lane])

    def _instruction(self, prefix: bytes) -> Instruction | None:
        try:
            return self._known[prefix]
        except KeyError:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            found = self._known[prefix] = instruction_of(prefix.decode(errors="replace"))
            return found

    def _addresses(self, texts: list[bytes]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Return the addresses of each text by lane, 0 for an inactive one, and which are sound."""
        addresses = np.zeros((len(texts), LANES), dtype=np.uint64)
        sound = np.zeros(len(texts), dtype=bool)
        regular = np.array([len(text) == REGULAR for text in texts])
        places = np.flatnonzero(regular)
        if len(places):
            chosen = texts if len(places) == len(texts) else [texts[at] for at in places.tolist()]
            addresses[places], sound[places] = regular_addresses(chosen)
        for at in np.flatnonzero(~sound).tolist():
            numbers = odd_addresses(texts[at])
            if numbers is not None:
                sound[at] = True
                addresses[at] = 0
                addresses[at, : len(numbers)] = numbers
        return addresses, sound

    def _append(
        self,
        columns: list[tuple[Any, ...]],
        row: NDArray[np.int64],
        lane: NDArray[np.int64],
        address: NDArray[np.uint64],
    ) -> None:
        launch, request, pc, block, warp, op, space, size = zip(*columns, strict=True)
        place: Any = pa.array(row)

        def of_warp(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array[Any]:
            return pa.array(values, kind).take(place)

        self._part.append(
            "access",
            pa.table(
                {
                    "pid": pa.array(np.zeros(len(row), np.int64)),
                    "device": pa.array(np.zeros(len(row), np.int32)),
                    "launch_id": of_warp(launch, pa.uint64()),
                    "request": of_warp(request, pa.uint64()),
                    "lane": pa.array(lane.astype(np.uint8)),
                    "pc": of_warp(pc, pa.uint32()),
                    "address": pa.array(address),
                    "bytes": of_warp(size, pa.uint32()),
                    "op": of_warp(op, pa.uint8()),
                    "space": of_warp(space, pa.uint8()),
                    "warp": of_warp(warp, pa.uint32()),
                    "block": of_warp(block, pa.uint64()),
                }
            ),
        )
