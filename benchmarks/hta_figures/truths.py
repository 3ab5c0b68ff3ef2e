"""Figures of one rank, each computed from raw events by a few lines that share nothing with pasta.

`..._as_hta` compute what HolisticTraceAnalysis computes where it asks another question.
"""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate, product

from .raw import (
    Event,
    calls,
    common,
    communicating,
    computing,
    copying,
    gaps,
    length,
    merged,
    work,
)

Rows = list[Event]


def span(events: Rows) -> int:
    """Return the time from the first begin of work on the device to its last end."""
    rows = work(events)
    return max(row.end for row in rows) - rows[0].begin


def idle(events: Rows) -> int:
    """Return the part of the span in which nothing runs."""
    return span(events) - length(merged(work(events)))


def compute(events: Rows) -> int:
    """Return the time in which at least one kernel computes."""
    return length(merged(computing(events)))


def not_hidden(events: Rows) -> int:
    """Return the time in which something runs and no kernel computes."""
    return span(events) - idle(events) - compute(events)


def hidden_percent(events: Rows) -> float | None:
    """Return the share of communication during which a kernel computes, in percent."""
    communication = merged(communicating(events))
    if not communication:
        return None
    return 100 * length(common(communication, merged(computing(events)))) / length(communication)


def kernel_names(events: Rows) -> int:
    """Return how many kernels of different names there are."""
    return len({row.name for row in computing(events) + communicating(events)})


def kernel_time(events: Rows) -> int:
    """Return the sum of the durations of kernels."""
    return sum(row.dur for row in computing(events) + communicating(events))


def largest_kernel(events: Rows) -> int:
    """Return the sum of the durations of the kernel that has most."""
    sums: dict[str, int] = defaultdict(int)
    for row in computing(events) + communicating(events):
        sums[row.name] += row.dur
    return max(sums.values())


def recorded_steps(events: Rows) -> list[tuple[int, int]]:
    """Return the steps of the host, or all time where there are none."""
    steps = [e for e in events if e.name.startswith("ProfilerStep") and e.category == "user_annotation"]  # fmt: skip
    return merged(steps) if steps else [(0, 2**62)]


def without_compute(events: Rows) -> list[tuple[int, int]]:
    """Return the time of the device in which no kernel computes, within steps."""
    rows = work(events)
    first, last = rows[0].begin, max(row.end for row in rows)
    busy = [(first, first), *merged(computing(events)), (last, last)]
    return common([gap for gap in gaps(busy) if gap[0] < gap[1]], recorded_steps(events))


def host_late(events: Rows) -> int:
    """Return how long no kernel computes because the call that launches the next work is to come.

    The next work is the next of all; while a copy or collective runs it is the next kernel that
    computes, and time in which its thread waits for the device is not the host's.
    """
    rows, computes, made = work(events), computing(events), calls(events)
    busy = merged(copying(events) + communicating(events))
    bare = without_compute(events)
    found = sum(length([piece]) for piece, _ in late(uncovered(bare, busy), rows, made))
    waits: dict[str, Rows] = defaultdict(list)
    for call in made.values():
        if _WAITS.search(call.name.lower()):
            waits[call.thread].append(call)
    waiting = {thread: merged(rows) for thread, rows in waits.items()}
    pieces: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for piece, call in late(common(bare, busy), computes, made):
        pieces[call.thread].append(piece)
    for thread, of in pieces.items():
        found += length(of) - length(common(of, waiting.get(thread, [])))
    return found


_WAITS = re.compile("synchronize|signal_wait|memcpy")


def late(pieces: list[tuple[int, int]], following: Rows, made: dict[int, Event]) -> Iterator[tuple[tuple[int, int], Event]]:  # fmt: skip
    """Yield the part of each piece that lies before the call of what follows, and that call."""
    begins = [row.begin for row in following]
    for begin, end in pieces:
        at = bisect.bisect_left(begins, end)
        call = made.get(following[at].correlation) if at < len(following) else None
        if call is not None and begin < call.begin <= following[at].begin:
            yield (begin, min(call.begin, end)), call


def uncovered(union: list[tuple[int, int]], busy: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the parts of a union in which nothing of another runs."""
    return common(union, gaps([(-1, -1), *busy, (2**62, 2**62)]))


def host_late_as_hta(events: Rows) -> int:
    """Return the gaps of each stream whose work is called after the work before it has ended.

    Work whose call was not recorded counts as called by the event that is the first of the file.
    """
    made, found = calls(events), 0
    first = next((event for event in events if event.place == 0), None)
    before: dict[int, int] = {}
    for row in work(events):
        call = made.get(row.correlation, first if row.correlation > 0 else None)
        ended = before.get(row.stream)
        if call is not None and ended is not None and call.begin > ended:
            found += row.begin - ended
        before[row.stream] = row.end
    return found


def longest_queue(events: Rows) -> int:
    """Return the most launches of one stream that are made and not finished.

    A graph is one launch of each of its streams; work without a call is launched as it begins.
    """
    made = calls(events)
    launches: dict[tuple[int, int], tuple[int, int]] = {}
    for row in work(events):
        call = made.get(row.correlation)
        known = call is not None and call.begin <= row.begin
        key = (row.stream, row.correlation if known else -1 - len(launches))
        begin, end = launches.get(key, (call.begin if call and known else row.begin, row.end))
        launches[key] = (begin, max(end, row.end))
    return most_at_once([(stream, *times) for (stream, _), times in launches.items()])


def most_at_once(intervals: list[tuple[int, int, int]], *, ends_first: bool = True) -> int:
    """Return the most intervals (stream, begin, end) of one stream that hold one moment."""
    changes: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for stream, begin, end in intervals:
        changes[stream] += [(begin, 1), (end, -1)]
    longest = 0
    for moves in changes.values():
        pending = 0
        for _, change in sorted(moves, key=lambda move: (move[0], move[1] if ends_first else -move[1])):  # fmt: skip
            pending += change
            longest = max(longest, pending)
    return longest


_QUEUED_BY = {
    "cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync",
    "hipLaunchKernel", "hipExtModuleLaunchKernel", "hipMemsetAsync", "hipMemcpyAsync", "hipMemcpyWithStream",
}  # fmt: skip


def longest_queue_as_hta(events: Rows) -> tuple[int, int]:
    """Return the most calls of some names whose work has not begun; of ties both orders."""
    named = {e.correlation: e for e in events if e.name in _QUEUED_BY}
    waits = [(row.stream, named[row.correlation].begin, row.begin) for row in work(events) if row.correlation in named]  # fmt: skip
    return most_at_once(waits), most_at_once(waits, ends_first=False)


_LAUNCHED_BY = {"cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync"}


def launches(events: Rows) -> list[tuple[Event, int, int]]:
    """Return each call that launched work, with the begin of its work and the sum of durations."""
    made = calls(events)
    rows: dict[int, list[Event]] = defaultdict(list)
    for row in work(events):
        if row.correlation in made and made[row.correlation].begin <= row.begin:
            rows[row.correlation].append(row)
    return [(made[one], min(row.begin for row in of), sum(row.dur for row in of)) for one, of in rows.items()]  # fmt: skip


def launches_as_hta(events: Rows) -> list[tuple[Event, int, int]]:
    """Return one of each work that a call of four names launched."""
    named: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        if event.name in _LAUNCHED_BY:
            named[event.correlation].append(event)
    return [(call, row.begin, row.dur) for row in work(events) for call in named[row.correlation]]


def delay(found: list[tuple[Event, int, int]]) -> int:
    """Return the sum of times from the end of a call to the begin of its work."""
    return sum(max(0, begin - call.end) for call, begin, _ in found)


def copies_of(events: Rows, name: str) -> Rows:
    """Return the copies of one kind that tell their bytes, as `Memcpy HtoD`."""
    return [row for row in copying(events) if row.name.startswith(name) and number_of_bytes(row) > 0]  # fmt: skip


def number_of_bytes(row: Event) -> int:
    """Return how many bytes a copy moves."""
    return int(row.arguments.get("bytes", 0))


def bandwidth(events: Rows, name: str) -> float | None:
    """Return bytes by time of all copies of a kind, in GB/s."""
    rows = [row for row in copies_of(events, name) if row.dur > 0]
    return sum(map(number_of_bytes, rows)) / sum(row.dur for row in rows) if rows else None


def bandwidth_as_hta(events: Rows, name: str) -> tuple[float, float] | None:
    """Return the mean of a curve at those of its points that are above 0.

    It rises by the recorded bandwidth of a copy as it begins, and falls as it ends. Points at one
    moment have no order, and residues of floating point may count: the least and the most is given.
    """
    points = []
    for row in copying(events):
        if row.name[:11].strip() == name or (name == "Memset" and row.name.startswith(name)):
            rate = float(row.arguments.get("memory bandwidth (GB/s)", -1))
            points += [(row.begin, rate), (row.begin + (row.dur or 1000), -rate)]
    found = []
    for sign, least in product((1, -1), (0, _RESIDUE)):
        curve = accumulate(change for _, change in sorted(points, key=lambda point: (point[0], sign * point[1])))  # fmt: skip
        found.append(mean([height for height in curve if height > least]))
    return (min(found), max(found)) if max(found) else None


def mean(values: list[float]) -> float:
    """Return the mean, 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


_RESIDUE = 1e-9
