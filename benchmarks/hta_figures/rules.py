"""The rules by which HolisticTraceAnalysis (0.5.0) differs from the raw events.

Each rule turns the events of a file into those that HTA computes with. A difference is explained
where a figure of the raw events, computed under some of these rules, is HTA's to the last digit.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations

from .raw import COPIES, DEVICE, KERNELS, UNKNOWN, Event

SYNCHRONISATIONS = ("Event Sync", "Context Sync")
Rows = list[Event]


def whole_microseconds(events: Rows) -> Rows:
    """Round begins up and ends down, in floating point, as HTA does on traces with nanoseconds."""
    rounded = []
    for event in events:
        begin, dur = event.begin / 1000, event.dur / 1000
        rounded.append(replace(event, begin=math.ceil(begin) * 1000, end=math.floor(begin + dur) * 1000))  # fmt: skip
    return rounded


def on_device(event: Event) -> bool:
    """Tell what HTA takes for the device where it filters by steps."""
    return (event.stream >= 0 and event.correlation >= 0) or event.name in SYNCHRONISATIONS


def without_last_step(events: Rows) -> Rows:
    """Leave out what begins on the host with the last of several steps or later, and its work.

    Work without a call is left out too, and work of a correlation that several events of the host
    have counts several times.
    """
    steps = [event for event in events if "ProfilerStep" in event.name]
    if len({event.name for event in steps}) < 2:
        return events
    last = max(event.begin for event in steps if not on_device(event))
    host = [event for event in events if not on_device(event) and event.begin < last]
    made = Counter(event.correlation for event in host)
    kept = [event for event in events if on_device(event) for _ in range(made[event.correlation])]
    return host + kept


_COMMUNICATION = re.compile(r"nccl.*Kernel")
_COPY = re.compile(r"Memcpy|Memset|dma")
_NO_COMPUTATION = re.compile(r"nccl.*Kernel|.*Memcpy|Memset|.*Sync")


def by_stream_and_name(events: Rows) -> Rows:
    """Take whatever names a stream for work (operators, annotations, synchronisations), named so."""
    told = []
    for event in events:
        if event.stream == UNKNOWN:
            category = "host" if event.category in KERNELS + COPIES else event.category
        elif _COPY.match(event.name):
            category = COPIES[0]
        elif _COMMUNICATION.match(event.name) or not _NO_COMPUTATION.match(event.name):
            category = KERNELS[0]
        else:
            category = DEVICE
        told.append(replace(event, category=category))
    return told


RULES: dict[str, Callable[[Rows], Rows]] = {
    "rounds begins up and ends down to whole us": whole_microseconds,
    "leaves out the last step": without_last_step,
    "takes whatever names a stream for work": by_stream_and_name,
}
"""In the order in which HTA applies them."""


def ways() -> Iterator[tuple[str, ...]]:
    """Yield the sets of rules, the smallest first."""
    for many in range(len(RULES) + 1):
        yield from combinations(RULES, many)


def under(events: Rows, names: tuple[str, ...]) -> Rows:
    """Return the events that HTA computes with under some rules."""
    for name in names:
        events = RULES[name](events)
    return events
