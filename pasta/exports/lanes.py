"""Tracks on which intervals nest: what would cross another one goes to a lane beside it."""

from __future__ import annotations

from dataclasses import dataclass, field

FOREVER = 1 << 62


@dataclass
class Lanes:
    """The ends of what is open on each lane of one track, outermost first."""

    open: list[list[int]] = field(default_factory=list)

    def place(self, ts: int, end: int | None) -> tuple[int, list[int]]:
        """Put an interval on the first lane where it nests; starts never decrease.

        Returns:
            The lane, and the ends on it that lie before the interval, innermost first.
        """
        until = FOREVER if end is None else end
        for lane, ends in enumerate(self.open):  # noqa: B007 (used after the loop)
            left = len(ends)
            while left and ends[left - 1] <= ts:
                left -= 1
            if not left or ends[left - 1] >= until:
                break
        else:
            lane, ends, left = len(self.open), [], 0
            self.open.append(ends)
        ended = ends[left:][::-1]
        del ends[left:]
        if until > ts:
            ends.append(until)
        return lane, ended
