"""Events of perf that users name: `NAME[@PERIOD[:UNIT]]`, and what perf is told of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pasta.errors import CollectError

CLOCK = "on_cpu"
"""What the clock's samples are called."""

_TEXT = re.compile(r"(?P<name>[^@\s{}]+)(?:@(?P<period>\d{1,18})(?::(?P<unit>[^:\s]+))?)?")
_MODIFIED = re.compile(r"(?P<plain>.+?)(?::(?P<modifier>[ukhHGpPSDWe]{1,8}))?")
_TRACEPOINT = re.compile(r"[\w-]+:\w+")
_HARDWARE = re.compile(
    r"(cpu-)?cycles|instructions|cache-(references|misses)|branch(es|-instructions|-misses)"
    r"|bus-cycles|ref-cycles|stalled-cycles-(front|back)end|topdown-.*|(L1|LLC|[id]TLB|node).*"
    r"|r[0-9a-fA-F]+|cpu(_core|_atom)?/.*"
)


@dataclass(frozen=True)
class Event:
    """One event to sample.

    Attributes:
        text: its name, as the user wrote it; the kind of its samples.
        period: every how many-th is sampled; `None`: as often as the clock.
        unit: what a sample's weight counts.
        plain: the name without what says where it counts.
        modifier: that part, as `u` for user code.
    """

    text: str
    period: int | None
    unit: str
    plain: str
    modifier: str

    @property
    def is_tracepoint(self) -> bool:
        """Whether it is a place in the kernel."""
        return _TRACEPOINT.fullmatch(self.plain) is not None

    @property
    def is_hardware(self) -> bool:
        """Whether a counter of the CPU counts it."""
        return _HARDWARE.fullmatch(self.plain) is not None

    def told(self, name: str, frequency: int, where: str) -> str:
        """Return the event as perf is told of it.

        Args:
            name: what its samples are to be printed with.
            frequency: samples a second, where it has no period.
            where: what is seen of it, where the user does not say: `u` for user code; empty: all.
        """
        if self.is_tracepoint:
            return self.text
        often = f"freq={frequency}" if self.period is None else f"period={self.period}"
        if "/" in self.plain:
            terms, _, modifier = self.plain.rpartition("/")
            return f"{terms},{often},name={name}/{modifier or where}"
        return f"{self.plain}/{often},name={name}/{self.modifier or where}"


def parse_event(text: str) -> Event:
    """Return the event that a text names.

    Raises:
        CollectError: it is none.
    """
    found = _TEXT.fullmatch(text)
    if found is None or found["period"] == "0":
        raise CollectError(
            f"--event {text}: expected NAME, NAME@PERIOD or NAME@PERIOD:UNIT, as page-faults@1:faults"
        )
    named = _MODIFIED.fullmatch(found["name"])
    assert named is not None  # noqa: S101 - it takes any text
    period = int(found["period"]) if found["period"] else None
    event = Event(
        found["name"], period, found["unit"] or "events", named["plain"], named["modifier"] or ""
    )
    if event.is_tracepoint and period not in (None, 1):
        raise CollectError(
            f"--event {text}: perf records every hit of a tracepoint; leave out @{period}"
        )
    return event


def perf_arguments(
    events: Sequence[Event], frequency: int, *, kernel: bool
) -> tuple[list[str], dict[str, str]]:
    """Return what tells perf of the clock and of events, and the kind of samples by printed name.

    Counters of the CPU are one group: they count over the same time, and so compare.

    Args:
        events: beside the clock.
        frequency: samples a second of the clock.
        kernel: whether the kernel's own code is seen too.
    """
    where = "" if kernel else "u"
    kinds = {CLOCK: CLOCK}
    grouped: list[str] = []
    alone = [f"task-clock/freq={frequency},name={CLOCK}/{where}"]
    for number, event in enumerate(events, 1):
        name = event.text if event.is_tracepoint else f"event{number}"
        kinds[name] = event.text
        (grouped if event.is_hardware else alone).append(event.told(name, frequency, where))
    texts = [*alone, *([f"{{{','.join(grouped)}}}"] if grouped else [])]
    return [argument for text in texts for argument in ("-e", text)], kinds


def parse_events(texts: Iterable[str]) -> list[Event]:
    """Return the events that texts name, each once.

    Raises:
        CollectError: one is none, or is named twice.
    """
    events = [parse_event(text) for text in texts]
    names = [event.text for event in events]
    for name in names:
        if names.count(name) > 1 or name == CLOCK:
            raise CollectError(f"--event {name}: is given twice; one period for each event")
    return events
