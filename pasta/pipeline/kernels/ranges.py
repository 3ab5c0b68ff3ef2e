"""Ranges of addresses cut into pieces: at the multiples of a size, or at given edges."""

from __future__ import annotations

from typing import Any, NamedTuple

from pasta.pipeline.kernels.namespace import array_namespace


class Pieces(NamedTuple):
    """Pieces `[starts, ends)` of ranges, in order of the ranges and of addresses.

    Attributes:
        rows: the range that each piece is of, int64.
        starts: first address, u64.
        ends: first address after it, u64.
    """

    rows: Any
    starts: Any
    ends: Any


def cut_evenly(starts: Any, ends: Any, size: int) -> Pieces:
    """Cut the ranges `[starts, ends)`, u64, at the multiples of `size`; empty ones have no piece."""
    xp = array_namespace(starts)
    first, beyond = starts // size, (ends + (size - 1)) // size
    rows, places = repeated(xp.where(ends > starts, beyond - first, 0))
    granules = first[rows] + places
    begins, closes = granules * size, (granules + 1) * size
    return Pieces(rows, xp.maximum(begins, starts[rows]), xp.minimum(closes, ends[rows]))


def cut_at(starts: Any, ends: Any, edges: Any) -> Pieces:
    """Cut the ranges `[starts, ends)`, u64, at `edges`, which are sorted and differ."""
    xp = array_namespace(starts)
    first = xp.searchsorted(edges, starts, side="right")
    beyond = xp.searchsorted(edges, ends, side="left")
    rows, places = repeated(xp.where(ends > starts, beyond - first + 1, 0).astype(starts.dtype))
    if not len(edges):
        return Pieces(rows, starts[rows], ends[rows])
    following = first[rows] + places.astype(xp.int64)
    before, after = xp.maximum(following - 1, 0), xp.minimum(following, len(edges) - 1)
    is_first, is_last = places == 0, following == beyond[rows]
    return Pieces(
        rows,
        xp.where(is_first, starts[rows], edges[before]),
        xp.where(is_last, ends[rows], edges[after]),
    )


def repeated(counts: Any) -> tuple[Any, Any]:
    """Return each row as often as `counts`, of integers, says, and which time it is, from 0 on."""
    xp = array_namespace(counts)
    rows = xp.repeat(xp.arange(len(counts)), counts.astype(xp.int64))
    before = xp.cumsum(counts) - counts
    return rows, xp.arange(len(rows), dtype=counts.dtype) - before[rows]
