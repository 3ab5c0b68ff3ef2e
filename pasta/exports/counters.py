"""Values over time: live bytes of each process, device and space, and metrics."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from pasta.exports.exporter import Exported
from pasta.exports.names import Process
from pasta.exports.timeline import Event

_UNKNOWN = "releases of memory whose allocation is not in the trace: left out"
_NOT_FINITE = "metrics whose value is no number: left out"

Place = tuple[int, int, int, str]


class Counted(NamedTuple):
    """A value from a time on.

    Attributes:
        process: whose value it is.
        name: of the counter, unique in its process.
        unit: of the value; live bytes are whole numbers of `bytes`.
        value: finite.
    """

    process: Process
    name: str
    unit: str
    value: float


class Counters:
    """Follows allocations, of which what is live is held, one number each.

    Args:
        exported: where rows that give no value are counted, and taken from those that are written.
    """

    TABLES = frozenset({"memory", "metric"})

    def __init__(self, exported: Exported) -> None:
        self._exported = exported
        self._live: dict[tuple[Place, int], int] = {}
        self._totals: dict[Place, int] = {}

    def after(self, event: Event) -> Counted | None:
        """Return the value after a row of `memory` or `metric`; `None`: it tells none."""
        row = event.row
        found, reason = (
            (self._live_bytes(row), _UNKNOWN)
            if event.table == "memory"
            else (_metric(row), _NOT_FINITE)
        )
        if found is None:
            self._exported.losses[reason] += 1
            self._exported.rows[event.table] -= 1
        return found

    def _live_bytes(self, row: dict[str, Any]) -> Counted | None:
        process, device = (row["rank"] or 0, row["pid"] or 0), row["device"] or 0
        place = (*process, device, row["space"] or "unknown")
        key, total = (place, row["address"] or 0), self._totals.get(place, 0)
        if row["event"] == "allocate":
            total += (row["bytes"] or 0) - self._live.get(key, 0)
            self._live[key] = row["bytes"] or 0
        elif key in self._live:
            total -= self._live.pop(key)
        else:
            return None
        self._totals[place] = total
        where = f"GPU {device}" if device >= 0 else "host"
        return Counted(process, f"{where} live bytes ({place[-1]})", "bytes", total)


def _metric(row: dict[str, Any]) -> Counted | None:
    if row["value"] is None or not math.isfinite(row["value"]):
        return None
    device = row["device"]
    name = row["name"] if device is None or device < 0 else f"GPU {device} {row['name']}"
    process = (row["rank"] or 0, row["pid"] or 0)
    return Counted(process, name, row["unit"] or "", row["value"])
