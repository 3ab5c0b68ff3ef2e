"""The longest common subsequence of two sequences that are nearly equal.

E. W. Myers, "An O(ND) Difference Algorithm and Its Variations", Algorithmica 1 (1986): paths of as
few insertions and deletions as possible, here with all diagonals advanced at once, runs of equal
elements found by comparing hashes, and paths that lag far behind given up.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

_Reached = tuple[int, NDArray[np.int32], NDArray[np.int32]]
"""After so many steps: the lowest diagonal, and the x at which each diagonal was met and left."""

LAG = 1 << 15
"""A path so many elements behind the furthest one is given up."""

ROOM, LEAST_ROOM = 1 << 24, 1 << 13
"""So many points of paths, of 8 bytes, are kept before the furthest path is settled on; fewer where
the sequences have little in common."""

_NOWHERE = -(1 << 30)
_BASE = 0x9E3779B97F4A7C15  # odd, so that powers of it have inverses modulo 2**64


def align(
    left: Integers, right: Integers, *, lag: int = LAG, room: int = ROOM
) -> tuple[Integers, Integers]:
    """Return positions in `left` and `right` of elements that are matched, both ascending.

    Matched elements are equal, and as many as can be in one order on both sides, unless more than
    about `lag` elements differ in one place, or thousands of them differ all along: then the result
    is a common subsequence that need not be the longest.

    Args:
        left: a sequence of small integers from 0.
        right: another one.
        lag: paths so many elements behind the furthest are given up.
        room: points of paths to keep.
    """
    rows, columns = _shared(left, right)
    a, b = left[rows], right[columns]
    first = _equal_from_start(a, b)
    last = _equal_from_start(a[first:][::-1], b[first:][::-1])
    runs = [(0, 0, first)]
    between = _Paths(a[first : len(a) - last], b[first : len(b) - last], lag, room)
    runs += [(first + x, first + y, length) for x, y, length in between.runs()]
    runs.append((len(a) - last, len(b) - last, last))
    lengths = np.array([length for _, _, length in runs])
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    matched_rows = np.repeat([x for x, _, _ in runs], lengths) + within
    matched_columns = np.repeat([y for _, y, _ in runs], lengths) + within
    equal = a[matched_rows] == b[matched_columns]  # hashes of unequal runs could be equal
    return rows[matched_rows[equal]], columns[matched_columns[equal]]


def doubtful(left: Integers, right: Integers, rows: Integers, columns: Integers) -> int:
    """Return how many matched elements could as well be left out in place of one that is.

    Of `k k` and `k` either may be the one that both have. Elements that one side has never do not
    count as left out.

    Args:
        left: a sequence.
        right: another one.
        rows: positions of the matched elements in `left`.
        columns: those in `right`.
    """
    kept = _shared(left, right)
    found = np.zeros(len(rows), dtype=bool)
    for sequence, matched, positions in zip((left, right), (rows, columns), kept, strict=True):
        _mark_movable(sequence[positions], np.searchsorted(positions, matched), found)
    return int(found.sum())


def _mark_movable(sequence: Integers, matched: Integers, found: NDArray[np.bool_]) -> None:
    """Mark the matched elements past which the gaps between them could be moved."""
    before = np.concatenate([[-1], matched]) + 1
    after = np.concatenate([matched, [len(sequence)]])
    gaps = np.flatnonzero(after > before)
    bounds = np.concatenate([[0], gaps, [len(matched)]])
    for number, gap in enumerate(gaps, 1):
        start, end = before[gap], after[gap]
        ahead = int(bounds[number + 1] - gap)
        found[
            gap : gap
            + _equal_from_start(sequence[start : start + ahead], sequence[end : end + ahead])
        ] = True
        behind = int(gap - bounds[number - 1])
        earlier = sequence[start - behind : start][::-1], sequence[end - behind : end][::-1]
        found[gap - _equal_from_start(*earlier) : gap] = True


def _shared(left: Integers, right: Integers) -> tuple[Integers, Integers]:
    """Return the positions of elements that the other sequence has somewhere."""
    codes = max(left.max(initial=-1), right.max(initial=-1)) + 1
    rows = np.flatnonzero(np.bincount(right, minlength=codes)[left] > 0)
    columns = np.flatnonzero(np.bincount(left, minlength=codes)[right] > 0)
    return rows, columns


def _equal_from_start(a: Integers, b: Integers) -> int:
    """Return how many elements are equal before the first that are not."""
    shorter = min(len(a), len(b))
    different = a[:shorter] != b[:shorter]
    return int(different.argmax()) if different.any() else shorter


class _Paths:
    """Paths through the grid of two sequences: right leaves out an element of `a`, down one of `b`.

    A point is (x, y), its diagonal x - y. After so many steps the furthest point of each diagonal
    is known by its x; `_first` is the lowest diagonal, and only every second one can be reached.
    """

    def __init__(self, a: Integers, b: Integers, lag: int, room: int) -> None:
        self._size = len(a), len(b)
        self._lag = lag
        self._room = room
        chance = np.random.default_rng(0)
        codes = max(a.max(initial=-1), b.max(initial=-1)) + 1
        values = chance.integers(0, 1 << 64, codes, dtype=np.uint64)
        self._powers = np.full(max(self._size) + 1, _BASE, dtype=np.uint64)
        self._powers[:1] = 1
        self._powers = np.cumprod(self._powers, dtype=np.uint64)
        self._sums = [self._prefix_sums(values[side]) for side in (a, b)]

    def _prefix_sums(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        sums = np.zeros(len(values) + 1, dtype=np.uint64)
        np.cumsum(values * self._powers[: len(values)], out=sums[1:], dtype=np.uint64)
        return sums

    def runs(self) -> Iterator[tuple[int, int, int]]:
        """Yield runs of equal elements as (x, y, length), in order."""
        x = y = 0
        room = self._room
        while (x, y) != self._size:
            runs, (next_x, next_y) = self._advance(x, y, room)
            passed = next_x - x + next_y - y
            alike = 2 * sum(length for _, _, length in runs) > 0.9 * passed
            room = self._room if alike else max(room // 4, min(LEAST_ROOM, self._room))
            x, y = next_x, next_y
            yield from runs

    def _advance(
        self, x: int, y: int, room: int
    ) -> tuple[list[tuple[int, int, int]], tuple[int, int]]:
        """Return the runs of the shortest path from a point, and where it leads.

        That is the end, or the furthest point of all when `room` is used up.
        """
        first, begun = x - y, np.array([x])
        reached = begun + self._common(begun, begun - first)
        kept: list[_Reached] = [(first, begun.astype(np.int32), reached.astype(np.int32))]
        end = self._size[0] - self._size[1]
        while True:
            diagonals = first + 2 * np.arange(len(reached))
            done = (diagonals == end) & (reached == self._size[0])
            if done.any():
                return _back(kept, int(done.argmax())), self._size
            progress = 2 * reached - diagonals
            best = int(progress.argmax())
            if room <= 0:
                leads = int(reached[best]), int(reached[best] - diagonals[best])
                return _back(kept, best), leads
            near = np.flatnonzero(progress >= progress[best] - self._lag)
            alive = slice(near[0], near[-1] + 1)
            first, begun = self._step(diagonals[alive], reached[alive])
            reached = begun.copy()
            valid = np.flatnonzero(begun >= 0)
            starts = begun[valid]
            reached[valid] += self._common(starts, starts - first - 2 * valid)
            kept.append((first, begun.astype(np.int32), reached.astype(np.int32)))
            room -= len(reached)

    def _step(self, diagonals: Integers, reached: Integers) -> tuple[int, Integers]:
        """Return the first diagonal and the x of each point that is one step further."""
        width, height = self._size
        right = np.where(reached < width, reached + 1, _NOWHERE)
        down = np.where(reached - diagonals < height, reached, _NOWHERE)
        begun = np.full(len(reached) + 1, _NOWHERE)
        begun[1:] = right
        np.maximum(begun[:-1], down, out=begun[:-1])
        return int(diagonals[0]) - 1, np.maximum(begun, _NOWHERE)

    def _common(self, x: Integers, y: Integers) -> Integers:
        """Return how many elements are equal from each point on: by doubling, then by halving."""
        length, failed = np.zeros_like(x), np.ones_like(x)
        climbing, step = np.arange(len(x)), 1
        while len(climbing):
            start = length[climbing]
            equal = self._equal(x[climbing] + start, y[climbing] + start, step)
            failed[climbing[~equal]] = step
            climbing = climbing[equal]
            length[climbing] += step
            step *= 2
        while step > 1:
            step //= 2
            halving = np.flatnonzero(failed > step)
            start = length[halving]
            equal = self._equal(x[halving] + start, y[halving] + start, step)
            length[halving[equal]] += step
        return length

    def _equal(self, x: Integers, y: Integers, length: int) -> NDArray[np.bool_]:
        """Tell whether `length` elements from x and from y on exist and are equal."""
        width, height = self._size
        within = (x + length <= width) & (y + length <= height)
        x, y = np.where(within, x, 0), np.where(within, y, 0)
        stop = np.where(within, length, 0)
        sums_a, sums_b = self._sums
        hash_a = (sums_a[x + stop] - sums_a[x]) * self._powers[y]
        hash_b = (sums_b[y + stop] - sums_b[y]) * self._powers[x]
        equal: NDArray[np.bool_] = within & (hash_a == hash_b)
        return equal


def _back(kept: list[_Reached], place: int) -> list[tuple[int, int, int]]:
    """Return the runs of the path that led to a point, given by its place among the last ones."""
    runs = []
    diagonal = kept[-1][0] + 2 * place
    for step in range(len(kept) - 1, -1, -1):
        first, begun, reached = kept[step]
        place = (diagonal - first) // 2
        x, length = int(begun[place]), int(reached[place] - begun[place])
        if length:
            runs.append((x, x - diagonal, length))
        if step:
            first, _, reached = kept[step - 1]
            left = (diagonal - 1 - first) // 2
            from_left = 0 <= left < len(reached) and reached[left] + 1 == x
            diagonal += -1 if from_left else 1
    return runs[::-1]
