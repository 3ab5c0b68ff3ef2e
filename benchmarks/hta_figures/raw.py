"""The raw events of a PyTorch profiler file, in integer nanoseconds, read with no library."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

KERNELS = ("kernel", "Kernel")
COPIES = ("gpu_memcpy", "gpu_memset", "Memcpy", "Memset")
DEVICE = "device"
"""What takes time on a device and is neither; no event of a file has it."""
CALLS = ("cuda_runtime", "cuda_driver", "Runtime")
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Event:
    """A complete event, half-open from `begin` to `end`; what it does not say is -1."""

    place: int
    """Its place among all events of the file."""
    name: str
    category: str
    thread: str
    begin: int
    end: int
    stream: int
    correlation: int
    arguments: dict[str, Any]

    @property
    def dur(self) -> int:
        """Return its duration."""
        return self.end - self.begin


def nanoseconds(microseconds: Decimal | int) -> int:
    """Return microseconds as integer nanoseconds, with nothing rounded."""
    whole = Decimal(microseconds) * 1000
    if whole != int(whole):
        message = f"{microseconds} us is no whole number of nanoseconds"
        raise ValueError(message)
    return int(whole)


def number(value: object) -> int:
    """Return an integer argument, -1 where it is absent or none."""
    try:
        return int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return UNKNOWN


def read(path: Path) -> list[Event]:
    """Return all complete events with a category, but for the profiler's own."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        rows = json.load(stream, parse_float=Decimal)["traceEvents"]
    found = []
    for place, row in enumerate(rows):
        if row.get("dur") is None or "cat" not in row or row["cat"] == "Trace":
            continue
        arguments = row.get("args") or {}
        begin = nanoseconds(row["ts"])
        stream_of, correlation = number(arguments.get("stream")), number(arguments.get("correlation"))  # fmt: skip
        thread = f"{row.get('pid')} {row.get('tid')}"
        found.append(Event(place, row["name"], row["cat"], thread, begin, begin + nanoseconds(row["dur"]), stream_of, correlation, arguments))  # fmt: skip
    return found


_COLLECTIVE = re.compile(r"(nccl|rccl|mscclKernel).*[Kk]ernel")


def work(events: Iterable[Event]) -> list[Event]:
    """Return kernels and copies, by their begin."""
    return sorted((e for e in events if e.category in (*KERNELS, *COPIES, DEVICE)), key=lambda e: (e.begin, e.end))  # fmt: skip


def computing(events: Iterable[Event]) -> list[Event]:
    """Return kernels that compute."""
    return [e for e in work(events) if e.category in KERNELS and not _COLLECTIVE.match(e.name)]


def communicating(events: Iterable[Event]) -> list[Event]:
    """Return the kernels of collectives."""
    return [e for e in work(events) if e.category in KERNELS and _COLLECTIVE.match(e.name)]


def copying(events: Iterable[Event]) -> list[Event]:
    """Return copies and memsets."""
    return [e for e in work(events) if e.category in COPIES]


def calls(events: Iterable[Event]) -> dict[int, Event]:
    """Return the call of each correlation; of several the first, which holds the others."""
    found: dict[int, Event] = {}
    for event in events:
        if event.category in CALLS and event.correlation > 0:
            kept = found.get(event.correlation)
            if kept is None or event.begin < kept.begin:
                found[event.correlation] = event
    return found


def merged(rows: Iterable[Event]) -> list[tuple[int, int]]:
    """Return the union of intervals, in order."""
    union: list[tuple[int, int]] = []
    for begin, end in sorted((row.begin, row.end) for row in rows):
        if union and begin <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((begin, end))
    return union


def length(union: Iterable[tuple[int, int]]) -> int:
    """Return how long a union is."""
    return sum(end - begin for begin, end in union)


def common(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return what two unions have in common."""
    found, at, other = [], 0, 0
    while at < len(left) and other < len(right):
        begin, end = max(left[at][0], right[other][0]), min(left[at][1], right[other][1])
        if begin < end:
            found.append((begin, end))
        if left[at][1] < right[other][1]:
            at += 1
        else:
            other += 1
    return found


def gaps(union: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return what lies between the intervals of a union."""
    return [(one[1], two[0]) for one, two in pairwise(union)]
