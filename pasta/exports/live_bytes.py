"""Live bytes of each process, device and space, followed from allocations and releases."""

from __future__ import annotations

from typing import Any

from pasta.exports.exporter import Exported

_UNKNOWN = "releases of memory whose allocation is not in the trace: left out"

Place = tuple[int, int, int, str]


class LiveBytes:
    """Follows allocations; what is live is held, one number each."""

    def __init__(self, exported: Exported) -> None:
        self._exported = exported
        self._live: dict[tuple[Place, int], int] = {}
        self._totals: dict[Place, int] = {}

    def after(self, row: dict[str, Any]) -> tuple[Place, int] | None:
        """Return the place of a row of `memory` and its live bytes after it; `None`: not known."""
        place = (row["rank"] or 0, row["pid"] or 0, row["device"] or 0, row["space"] or "unknown")
        key, total = (place, row["address"] or 0), self._totals.get(place, 0)
        if row["event"] == "allocate":
            total += (row["bytes"] or 0) - self._live.get(key, 0)
            self._live[key] = row["bytes"] or 0
        elif key in self._live:
            total -= self._live.pop(key)
        else:
            self._exported.losses[_UNKNOWN] += 1
            return None
        self._totals[place] = total
        return place, total
