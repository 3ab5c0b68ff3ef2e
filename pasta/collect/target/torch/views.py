"""How many distinct bytes of one storage a set of strided views covers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

RUNS_LIMIT = 1 << 20
"""Above so many separate runs of bytes, coverage is bounded instead of enumerated."""


class View(NamedTuple):
    """A tensor's place in its storage; offset and strides count elements."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @property
    def bytes(self) -> int:
        """Bytes of the elements, those that share a place counted each time."""
        return math.prod(self.shape) * self.itemsize


class Coverage(NamedTuple):
    """Distinct bytes; an upper bound where not `exact`."""

    bytes: int
    exact: bool


def coverage(views: tuple[View, ...]) -> Coverage:
    """Return how many distinct bytes of their one storage `views` cover together.

    Exact up to `RUNS_LIMIT` separate runs of bytes. Beyond, it is the smaller of the sum of the
    views' bytes and the extent from the first byte to the last.
    """
    blocks = [*dict.fromkeys(_block(view) for view in views if view.bytes)]
    if not blocks:
        return Coverage(0, exact=True)
    if len(blocks) == 1 and blocks[0].disjoint:
        return Coverage(blocks[0].runs * blocks[0].length, exact=True)
    if sum(block.runs for block in blocks) <= RUNS_LIMIT:
        return Coverage(_union(blocks), exact=True)
    extent = max(block.end for block in blocks) - min(block.first for block in blocks)
    return Coverage(min(extent, sum(block.runs * block.length for block in blocks)), exact=False)


class _Block(NamedTuple):
    """Runs of `length` bytes, the first at byte `first`, repeated over dimensions (size, step)."""

    first: int
    length: int
    dimensions: tuple[tuple[int, int], ...]

    @property
    def runs(self) -> int:
        """How many there are."""
        return math.prod(size for size, _ in self.dimensions)

    @property
    def end(self) -> int:
        """The byte after the last one."""
        return self.first + self.length + sum((size - 1) * step for size, step in self.dimensions)

    @property
    def disjoint(self) -> bool:
        """Whether no two runs can overlap: each step clears all that lies within it."""
        extent = self.length
        for size, step in self.dimensions:
            if step < extent:
                return False
            extent += (size - 1) * step
        return True

    def starts(self) -> npt.NDArray[np.int64]:
        """Return the first byte of each run."""
        import numpy as np

        starts = np.array([self.first], dtype=np.int64)
        for size, step in self.dimensions:
            starts = (starts[:, None] + np.arange(size, dtype=np.int64) * step).ravel()
        return starts


def _block(view: View) -> _Block:
    """Drop the dimensions that add no place and join those that continue the run."""
    places = sorted(
        (stride * view.itemsize, size)
        for size, stride in zip(view.shape, view.strides, strict=True)
        if size > 1 and stride > 0
    )
    length = view.itemsize
    rest: list[tuple[int, int]] = []
    for step, size in places:
        if not rest and step == length:
            length *= size
        else:
            rest.append((size, step))
    return _Block(view.offset * view.itemsize, length, tuple(rest))


def _union(blocks: list[_Block]) -> int:
    """Measure the union of all runs, as intervals sorted by their start."""
    import numpy as np

    starts = np.concatenate([block.starts() for block in blocks])
    lengths = np.concatenate([np.full(block.runs, block.length) for block in blocks])
    order = np.argsort(starts, kind="stable")
    starts = starts[order]
    ends = np.maximum.accumulate(starts + lengths[order])
    covered_from = np.maximum(starts[1:], ends[:-1])
    return int(ends[0] - starts[0] + np.maximum(ends[1:] - covered_from, 0).sum())
