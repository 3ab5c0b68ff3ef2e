"""Events that come as a begin and an end, matched to complete ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation

from msgspec import Raw

from pasta.collect.importers.kineto.events import Begin, End, Event
from pasta.collect.losses import Losses


class BeginEndPairs:
    """Matches `B` and `E` events per thread, the last begun ending first.

    Args:
        losses: where those without a partner are counted.
    """

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._open: dict[tuple[str, str], list[Begin]] = {}
        self._ends: list[End] = []

    def match(self, events: Iterable[Begin | End]) -> Iterator[Event]:
        """Yield a complete event for each end, in order of the ends."""
        for event in events:
            thread = (str(event.pid), str(event.tid))
            if isinstance(event, Begin):
                self._open.setdefault(thread, []).append(event)
            elif self._open.get(thread):
                yield _joined(self._open[thread].pop(), event)
            else:
                self._ends.append(event)

    def left_over(self) -> list[Begin | End]:
        """Return the ends that never began and then the begins that never ended."""
        return [*self._ends, *(event for events in self._open.values() for event in events)]

    def report_left_over(self) -> None:
        """Count what has no partner, once all events have been seen."""
        for event in self.left_over():
            what = "begin that never ended" if isinstance(event, Begin) else "end that never began"
            self._losses.fault(f"{what}: left out", where=f"event '{event.name[:80]}'")


def _joined(begin: Begin, end: End) -> Event:
    return Event(
        cat=begin.cat,
        name=begin.name,
        pid=begin.pid,
        tid=begin.tid,
        ts=begin.ts,
        dur=_difference(begin.ts, end.ts),
        args=begin.args,
    )


def _difference(begin: Raw, end: Raw) -> Raw:
    try:
        return Raw(str(Decimal(bytes(end).decode()) - Decimal(bytes(begin).decode())).encode())
    except (InvalidOperation, ValueError):
        return Raw(b"null")
