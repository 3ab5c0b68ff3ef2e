"""Reserved ranges of addresses, which are mapped and unmapped in parts."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import NamedTuple


class Range(NamedTuple):
    """A reserved range.

    Attributes:
        start: its first byte.
        end: the byte after its last.
        object_id: the memory object that it is.
    """

    start: int
    end: int
    object_id: int


class Ranges:
    """Ranges that do not overlap."""

    def __init__(self) -> None:
        self._ranges: list[Range] = []

    def add(self, new: Range) -> None:
        """Add a range."""
        insort(self._ranges, new)

    def remove(self, start: int, end: int) -> list[Range]:
        """Remove and return the ranges that overlap one, as they were."""
        first = max(bisect_right(self._ranges, (start,)) - 1, 0)
        last = first
        found = []
        while last < len(self._ranges) and self._ranges[last].start < end:
            if self._ranges[last].end > start:
                found.append(self._ranges[last])
            last += 1
        self._ranges[first:last] = [kept for kept in self._ranges[first:last] if kept.end <= start]
        return found

    def gaps(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of a range that none of these covers."""
        gaps = []
        at = start
        row = max(bisect_right(self._ranges, (start,)) - 1, 0)
        while row < len(self._ranges) and self._ranges[row].start < end:
            covered = self._ranges[row]
            if covered.start > at:
                gaps.append((at, covered.start))
            at = max(at, covered.end)
            row += 1
        return [*gaps, (at, end)] if at < end else gaps
