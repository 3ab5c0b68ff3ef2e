"""What an export is, and the registry of formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from pasta.registry import Registry
from pasta.trace import Trace


@dataclass
class Exported:
    """What an export wrote.

    Attributes:
        rows: how many rows of each table were written.
        losses: how many rows could not be written whole, by the reason.
    """

    rows: Counter[str] = field(default_factory=Counter)
    losses: Counter[str] = field(default_factory=Counter)

    def lose(self, reason: str, count: int) -> None:
        """Count rows that could not be written whole, if there are any."""
        if count:
            self.losses[reason] += count


Exporter = Callable[[Trace, str], Exported]
"""Writes a trace to a file, a folder or an address."""

EXPORTERS: Registry[Exporter] = Registry("export format", "pasta.exports")
"""Every format by name."""


def exporter(name: str) -> Callable[[Exporter], Exporter]:
    """Register a function as what writes the format `name`."""
    return lambda function: EXPORTERS.add(name, function)
