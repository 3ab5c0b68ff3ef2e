"""Launches, as far as lines tell of them."""

from __future__ import annotations

from pasta.collect.demangle import demangled
from pasta.collect.importers.nvbit_text.lines import Instruction, Launch
from pasta.collect.losses import Losses
from pasta.collect.shaping.rows import Rows
from pasta.trace_writer import PartWriter

_DEVICE = 0
_UNTOLD = "launch that only its accesses tell of: kernel without a name"
_UNPLACED = "block in y or z of a grid whose size is not told: block unknown"


class Launches:
    """Numbers launches from 1 on: NVBit counts from 0, which here means unknown.

    Args:
        part: where their rows go.
        losses: where what is not known is counted.
    """

    def __init__(self, part: PartWriter, losses: Losses) -> None:
        self._losses = losses
        self._grids: dict[int, tuple[int | None, int | None, int | None]] = {}
        self._last = 0
        self._rows = Rows(
            part,
            "kernel",
            *("pid", "device", "launch_id", "correlation", "external_id", "graph_id"),
            *("graph_node_id", "context", "stream", "name", "grid_x", "grid_y", "grid_z"),
            *("block_x", "block_y", "block_z", "registers", "shared_bytes"),
        )

    def add(self, launch: Launch) -> None:
        """Add a launch that a line tells of."""
        number = launch.number + 1
        self._last = number
        if number in self._grids:
            self._losses.fault("launch that is told of twice: kept once")
            return
        self._grids[number] = launch.grid
        self._rows.add(
            *(0, _DEVICE, number, 0, 0, 0, 0, launch.context, launch.stream),
            *(demangled(launch.name), *launch.grid, *launch.block),
            *(launch.registers, launch.shared),
        )

    def of(self, instruction: Instruction) -> int:
        """Return the launch of an access, the last one where the line does not say."""
        number = self._last if instruction.number is None else instruction.number + 1
        number = number or 1
        if number not in self._grids:
            self._losses.skip(_UNTOLD)
            self.add(Launch(number - 1, instruction.context, ""))
        return number

    def block_of(self, launch: int, cta: tuple[int, int, int]) -> int | None:
        """Return the flattened index of a block; `None`: the grid's size is not known."""
        x, y, z = cta
        if not y and not z:
            return x
        width, height, _ = self._grids[launch]
        if width is None or height is None:
            self._losses.skip(_UNPLACED)
            return None
        place = x + width * (y + height * z)
        return place if place < 1 << 64 else None

    def finish(self) -> None:
        """Append what is held back."""
        self._rows.flush()
