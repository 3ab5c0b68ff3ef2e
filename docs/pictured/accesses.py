"""Accesses of small kernels, thread by thread, as pictures of tools on raw accesses show them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.tools.memory_run import ATOMIC, READ, WRITE, allocate
from tests.tools.warps import BASE, request, row_of

Rows = list[dict[str, Any]]
Requests = Iterator[dict[str, Any]]

SIDE, WARP, WORD = 64, 32, 4
SPREAD = 1 << 16
MATRIX, TRANSPOSED, COUNTS, PARTICLES = (BASE + SPREAD * place for place in range(4))
TENSORS = {
    MATRIX: SIDE * SIDE * WORD,
    TRANSPOSED: SIDE * SIDE * WORD,
    COUNTS: SIDE * WORD,
    PARTICLES: 256 * 16,
}


def transpose() -> Requests:
    """Read rows of a matrix and write them as columns: what is read lies side by side, what is written does not."""
    for row in range(SIDE):
        where = {"block": row // 8, "warp": row % 8}
        for column in range(0, SIDE, WARP):
            read = row_of(MATRIX + WORD * (SIDE * row + column))
            yield {"addresses": read, "op": READ, "pc": 0x40, **where}
            written = row_of(TRANSPOSED + WORD * (SIDE * column + row), stride=SIDE * WORD)
            yield {"addresses": written, "op": WRITE, "pc": 0x60, **where}


def triangle() -> Requests:
    """Add up the rows of a lower triangle, two in each block: the last blocks have most to do."""
    for row in range(SIDE):
        where = {"block": row // 2, "warp": row % 2}
        for column in range(0, row + 1, 8):
            read = row_of(TRANSPOSED + WORD * (SIDE * row + column), lanes=min(8, row + 1 - column))
            yield {"addresses": read, "op": READ, "pc": 0x80, **where}
        yield {"addresses": [COUNTS + WORD * row], "op": WRITE, "pc": 0xA0, **where}


def histogram() -> Requests:
    """Count the values of a matrix by atomic additions: most values are small, so that few counters are hot."""
    chance = random.Random(0)
    for row in range(0, SIDE, 2):
        where = {"block": row // 8, "warp": row % 8}
        yield {"addresses": row_of(MATRIX + WORD * SIDE * row), "op": READ, "pc": 0xC0, **where}
        bins = [min(int(chance.expovariate(0.15)), SIDE - 1) for _ in range(WARP)]
        counted = [COUNTS + WORD * place for place in bins]
        yield {"addresses": counted, "op": ATOMIC, "pc": 0xE0, **where}


def move_particles() -> Requests:
    """Move particles of 16 bytes along one axis, touch only their first and last word, and count them in each sixteenth."""
    for first in range(0, 256, WARP):
        where = {"block": first // 64, "warp": first // WARP % 2}
        counted = [PARTICLES + 16 * (first + lane // 16 * 16) + WORD for lane in range(WARP)]
        yield {"addresses": counted, "op": ATOMIC, "pc": 0x130, **where}
        for word, op, pc in ((0, READ, 0x100), (3, READ, 0x110), (0, WRITE, 0x120)):
            touched = row_of(PARTICLES + 16 * first + WORD * word, stride=16)
            yield {"addresses": touched, "op": op, "pc": pc, **where}


PROGRAM = (transpose, triangle, histogram, move_particles, transpose)
GRIDS = {transpose: 8, triangle: SIDE // 2, histogram: 8, move_particles: 4}


def small_kernels(*chosen: Any) -> dict[str, Rows]:
    """Return the tables of a program that launches the chosen kernels one after the other; all by default."""
    kernels, access = [], []
    for launch, kernel in enumerate(chosen or PROGRAM, start=1):
        grid = {"grid_x": GRIDS[kernel], "grid_y": 1, "grid_z": 1}
        timed = {"ts": 100_000 * launch, "dur": 20_000, "correlation": launch}
        kernels.append({"device": 0, "launch_id": launch, "name": kernel.__name__, **grid, **timed})
        for number, given in enumerate(kernel()):
            access += request(number, launch=launch, **given)
    memory = [allocate(1, "device", 1, MATRIX, len(TENSORS) * SPREAD)]
    for place, (address, size) in enumerate(TENSORS.items(), start=1):
        memory.append(allocate(1 + place, "tensor", place, address, size))
    return {"kernel": kernels, "access": access, "memory": memory}
