"""Tracks on which intervals nest: what would cross another one goes to a lane beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


class Lane(NamedTuple):
    """A lane: its track, and its place among the lanes of that track, from 0."""

    track: int
    place: int


class Events(NamedTuple):
    """Begins or ends of intervals.

    Attributes:
        times: when each is.
        turns: those of one time are in order of their turns.
        lanes: where each is.
        rows: the row of each begin, the mark of each end.
    """

    times: Integers
    turns: Integers
    lanes: Integers
    rows: Integers


class Lanes:
    """All lanes of all tracks, with what is open on each.

    Attributes:
        lanes: every lane by its number.
    """

    def __init__(self) -> None:
        self.lanes: list[Lane] = []
        self._of: dict[int, list[int]] = {}
        self._open: list[list[int]] = []
        self._ends = np.empty((4, 0), np.int64)
        self._count = 0

    def lay(
        self, tracks: Integers, starts: Integers, ends: Integers, marks: Integers
    ) -> tuple[Events, Events]:
        """Put intervals on the first lanes of their tracks where they nest.

        Of one time, ends come before begins, and inner ones before outer ones; an empty interval
        ends right after it has begun.

        Args:
            tracks: the track of each.
            starts: when each begins; they never decrease, from call to call neither.
            ends: when each ends; of one start the later comes first.
            marks: what is given back when an interval ends.

        Returns:
            The begins, in the order of the intervals, and all ends up to the last start.
        """
        lanes = np.array(self._chosen(tracks.tolist(), starts.tolist(), ends.tolist()), np.int64)
        rows = np.arange(len(starts))
        number = self._count + rows
        self._count += len(starts)
        turns = np.where(ends == starts, 2 * number + 1, -number)
        self._ends = np.concatenate([self._ends, [ends, turns, lanes, marks]], axis=1)
        return Events(starts, 2 * number, lanes, rows), self.ended(int(starts[-1]))

    def ended(self, until: int) -> Events:
        """Return the ends up to a time that have not been given yet."""
        over = self._ends[0] <= until
        found, self._ends = self._ends[:, over], self._ends[:, ~over]
        return Events(*found)

    def _chosen(
        self, tracks: Sequence[int], starts: Sequence[int], ends: Sequence[int]
    ) -> list[int]:
        lanes_of, stacks = self._of, self._open
        chosen = []
        for track, start, end in zip(tracks, starts, ends, strict=True):
            for lane in lanes_of.get(track, ()):
                stack = stacks[lane]
                while stack and stack[-1] <= start:
                    stack.pop()
                if not stack or stack[-1] >= end:
                    break
            else:
                lane = self._added(track)
                stack = stacks[lane]
            stack.append(end)
            chosen.append(lane)
        return chosen

    def _added(self, track: int) -> int:
        lane = len(self.lanes)
        of = self._of.setdefault(track, [])
        self.lanes.append(Lane(track, len(of)))
        of.append(lane)
        self._open.append([])
        return lane
