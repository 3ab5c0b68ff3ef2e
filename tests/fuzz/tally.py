"""What became of many inputs, and how to tell it."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .judge import OUTCOMES

_FAILURES = "failures"
_MESSAGE_SHOWN = 60


@dataclass
class Tally:
    """What became of the inputs of one importer.

    Attributes:
        outcomes: how many inputs ended in which way.
        findings: by what went wrong, the numbers of the inputs.
        seconds: of processor time.
        slowest: processor time of one input in s, and its number.
        peak: most bytes that a process held.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    findings: dict[str, list[int]] = field(default_factory=dict)
    seconds: float = 0.0
    slowest: tuple[float, int] = (0.0, 0)
    peak: int = 0

    @property
    def inputs(self) -> int:
        """How many inputs were read."""
        return self.outcomes.total()

    def note(self, failure: str, number: int) -> None:
        """Count an input that went wrong."""
        self.outcomes[_FAILURES] += 1
        self.findings.setdefault(failure, []).append(number)

    def time(self, seconds: float, number: int) -> None:
        """Count the time of an input."""
        self.seconds += seconds
        self.slowest = max(self.slowest, (seconds, number))

    def add(self, other: Tally) -> None:
        """Take over what another process counted."""
        self.outcomes += other.outcomes
        for failure, numbers in other.findings.items():
            self.findings.setdefault(failure, []).extend(numbers)
        self.seconds += other.seconds
        self.slowest = max(self.slowest, other.slowest)
        self.peak = max(self.peak, other.peak)


def told(error: BaseException) -> str:
    """Return what tells one failure from another: its kind, its place and some of its message."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    message = str(error)[:_MESSAGE_SHOWN] if isinstance(error, AssertionError) else ""
    words = "".join(character for character in message if not character.isdigit())
    return f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno} {words}".strip()


def table(tallies: Mapping[str, Tally]) -> Iterator[str]:
    """Yield the lines of a table in Markdown, with the sums in the last."""
    columns = [*OUTCOMES, _FAILURES]
    yield f"| importer | inputs | {' | '.join(columns)} | slowest, ms | peak, MiB |"
    yield "| --- |" + " ---: |" * (len(columns) + 3)
    everything = Tally()
    for name, tally in sorted(tallies.items()):
        yield _line(name, tally, columns)
        everything.add(tally)
    yield _line("all", everything, columns)


def _line(name: str, tally: Tally, columns: list[str]) -> str:
    counts = " | ".join(f"{tally.outcomes[column]:,}" for column in columns)
    slowest = f"{tally.slowest[0] * 1000:.0f} | {tally.peak >> 20}"
    return f"| {name} | {tally.inputs:,} | {counts} | {slowest} |"
