"""Events that come as a begin and an end, matched to complete ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from pasta.collect.importers.kineto_events import Event
from pasta.collect.losses import Losses


class BeginEndPairs:
    """Matches `B` and `E` events per thread, the last begun ending first.

    Args:
        losses: where those without a partner are counted.
    """

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._open: dict[tuple[Any, Any], list[Event]] = {}

    def match(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield a complete event for each end, in order of the ends."""
        for event in events:
            thread = (str(event.pid), str(event.tid))
            if event.ph == "B":
                self._open.setdefault(thread, []).append(event)
                continue
            begun = self._open.get(thread)
            if not begun:
                self._losses.fault(
                    "end of an event that never began: left out", where=f"event '{event.name[:80]}'"
                )
                continue
            begin = begun.pop()
            yield replace(begin, ph="X", dur=_difference(begin.ts, event.ts))

    def report_open(self) -> None:
        """Count what never ended, once all events have been seen."""
        count = sum(map(len, self._open.values()))
        self._losses.fault("begin of an event that never ended: left out", count)


def _difference(begin: Raw, end: Raw) -> Raw:
    try:
        return Raw(str(Decimal(bytes(end).decode()) - Decimal(bytes(begin).decode())).encode())
    except (InvalidOperation, ValueError):
        return Raw(b"")
