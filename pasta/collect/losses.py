"""Counting what an importer or collector could not keep or trust."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from pasta.errors import InputError, one_line
from pasta.schema import arrow_schema

_KINDS_MAX = 100
_REASON_MAX = 300
_WHERE_MAX = 120
_OTHER = "losses of more kinds than are told apart"


@dataclass
class Loss:
    """One kind of loss.

    Attributes:
        reason: what was lost or not trusted, and what was done instead.
        count: how many.
        first_ts: when it first happened, in ns; `None`: unknown.
        damage: whether the input is to blame, as opposed to a choice of what to keep.
        where: the byte, row or event of the first; empty: unknown.
    """

    reason: str
    count: int = 0
    first_ts: int | None = None
    damage: bool = False
    where: str = ""

    @property
    def told(self) -> str:
        """What was lost, how often and where first, in one line."""
        times = f" ({self.count} times)" if self.count > 1 else ""
        if not self.where or self.where in self.reason:
            return self.reason + times
        return f"{self.reason}{times}, {'first ' if times else ''}at {self.where}"


class Losses:
    """The losses of one collector, summed by reason.

    Reasons may quote the input: they are made printable and short, and only so many are told apart.

    Args:
        collector: who counts.
        source: the input's name, for messages.
        strict: raise at the first fault instead of counting it.
    """

    def __init__(self, collector: str, source: str = "", *, strict: bool = False) -> None:
        self.collector = collector
        self.source = source
        self.strict = strict
        self._by_reason: dict[str, Loss] = {}

    def __iter__(self) -> Iterator[Loss]:
        return iter(self._by_reason.values())

    def skip(self, reason: str, count: int = 1, first_ts: int | None = None) -> None:
        """Count what is left out by design, such as events that a table has no room for."""
        if count == 0:
            return
        loss = self._of(reason)
        loss.count += count
        if first_ts is not None and (loss.first_ts is None or first_ts < loss.first_ts):
            loss.first_ts = first_ts

    def fault(
        self, reason: str, count: int = 1, first_ts: int | None = None, *, where: str = ""
    ) -> None:
        """Count damage in the input.

        Args:
            reason: what was damaged and what was done.
            count: how many.
            first_ts: when, in ns.
            where: the byte, row or event.

        Raises:
            InputError: in strict mode, if `count` is not 0.
        """
        if self.strict and count:
            place = f" at {where}" if where else ""
            raise InputError(
                f"{self.source}{place}: {reason}; leave out --strict to keep what is sound"
            )
        self.add(Loss(reason, count, first_ts, damage=True, where=where))

    def _of(self, reason: str) -> Loss:
        loss = self._by_reason.get(reason)
        if loss is None:
            told = one_line(reason, _REASON_MAX)
            if told not in self._by_reason and len(self._by_reason) >= _KINDS_MAX:
                told = _OTHER
            loss = self._by_reason.setdefault(told, Loss(told))
        return loss

    def add(self, other: Loss) -> None:
        """Add what somebody else counted."""
        self.skip(other.reason, other.count, other.first_ts)
        if other.count == 0:
            return
        loss = self._of(other.reason)
        loss.damage |= other.damage
        if loss.count == other.count:
            loss.where = one_line(other.where, _WHERE_MAX)

    def shift(self, nanoseconds: int) -> None:
        """Move every known time, once the source's time base is known."""
        for loss in self:
            if loss.first_ts is not None:
                loss.first_ts += nanoseconds

    def rows(self, rank: int, pid: int) -> pa.Table:
        """Return the losses as rows of the `loss` table."""
        losses = [loss for loss in self if loss.count]
        return pa.Table.from_pydict(
            {
                "rank": [rank] * len(losses),
                "pid": [pid] * len(losses),
                "collector": [self.collector] * len(losses),
                "reason": [loss.reason for loss in losses],
                "count": [loss.count for loss in losses],
                "first_ts": [loss.first_ts for loss in losses],
            },
            schema=arrow_schema("loss"),
        )
