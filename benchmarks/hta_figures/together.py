"""What both sides say of several events or ranks together: sequences, paths, ranks, two runs."""

from __future__ import annotations

import bisect
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import polars as pl

import pasta

from .figures import Row, Value
from .raw import COPIES, KERNELS, Event, calls, communicating, computing, copying, work
from .rules import whole_microseconds

Rows = list[Event]
NOT_KERNELS = ("Memcpy", "Memset", "Stream Sync", "Event Sync")
MOST = 32
"""Kernels of the longest sequence that pasta looks for."""


def pattern(events: Rows, trace: Path, said: list[dict[str, Any]]) -> Row | None:
    """Return how often the kernels of HTA's most frequent pattern follow each other on a stream.

    HTA counts operators whose work is exactly the pattern; on the stream the same kernels may
    follow each other elsewhere.
    """
    for one in said:
        operator, *kernels = one["pattern"].split("|")
        if 2 <= len(kernels) <= MOST and not any(name.startswith(NOT_KERNELS) for name in kernels):
            counted = _operators(events, operator, kernels)
            why = f"counts the {operator} whose work is these kernels" if counted == one["count"] else None  # fmt: skip
            return Row("kernels of a pattern in a row", _sequences(trace, kernels), _in_a_row(events, kernels), one["count"], why)  # fmt: skip
    return None


def _in_a_row(events: Rows, kernels: list[str]) -> int:
    """Count occurrences that do not overlap, over all streams."""
    streams: dict[int, list[str]] = defaultdict(list)
    for row in work(events):
        if row.category in KERNELS:
            streams[row.stream].append(row.name)
    found = 0
    for names in streams.values():
        at = 0
        while at <= len(names) - len(kernels):
            same = names[at : at + len(kernels)] == kernels
            found += same
            at += len(kernels) if same else 1
    return found


def _operators(events: Rows, operator: str, kernels: list[str]) -> int:
    """Count the operators of a name, not within one of the same, whose work is these kernels."""
    threads: dict[str, Rows] = defaultdict(list)
    for call in sorted(calls(events).values(), key=lambda call: call.begin):
        threads[call.thread].append(call)
    begins = {thread: [call.begin for call in made] for thread, made in threads.items()}
    launched: dict[int, list[str]] = defaultdict(list)
    for row in work(events):
        launched[row.correlation].append(row.name)
    found = 0
    for one in (event for event in events if event.name == operator and event.thread in threads):
        at, to = (bisect.bisect_left(begins[one.thread], time) for time in (one.begin, one.end))
        found += [name for call in threads[one.thread][at:to] for name in launched[call.correlation]] == kernels  # fmt: skip
    return found


def _sequences(trace: Path, kernels: list[str]) -> int:
    """Return how often pasta says that the kernels follow each other, alone or in a longer sequence."""
    text = " > ".join(kernels)
    with tempfile.TemporaryDirectory() as out:
        pasta.run("kernel_sequences", trace=trace, out=out, longest=len(kernels), times=2, gap="1000s")  # fmt: skip
        found = pl.read_parquet(Path(out) / "sequences.parquet")
    return found.filter(pl.col("sequence") == text)["times"].sum()


def path(events: Rows, ours: Value, said: dict[str, Any]) -> Row | None:
    """Return how long the critical path of the first step is, which the step itself says."""
    steps = sorted((e for e in events if e.name.startswith("ProfilerStep") and e.category == "user_annotation"), key=lambda e: e.begin)  # fmt: skip
    if not steps:
        return None
    why = None
    step = steps[0].dur
    beyond = ", to work on the device that nothing in the step waits for" if said["length"] * 1000 > step else ""  # fmt: skip
    if abs(said["extent"] - said["left_out"] - said["length"]) < 1:
        why = (
            f"goes from one event to another {said['extent']:,.0f} us later{beyond}, and leaves out of that"
            f" {said['left_out']:,.0f} us: edges that it takes for mere dependencies have no length"
        )
    return Row("critical path of the first step", ours, step, round(said["length"] * 1000), why)  # fmt: skip


def stragglers(ranks: list[Rows], trace: Path, said: Any) -> Row:
    """Return the ranks that others wait for: those that are last at most collectives."""
    table = pasta.run("stragglers", trace=trace).tables["ranks"]
    most = table.filter(pl.col("last") > 0)
    ours = {row["rank"]: row["last"] for row in most.to_dicts()}
    begins = [[e.begin for e in sorted(communicating(rows), key=lambda e: (e.stream, e.begin))] for rows in ranks]  # fmt: skip
    last: Counter[int] = Counter()
    if len({len(times) for times in begins}) == 1:
        for arrivals in zip(*begins, strict=True):
            last[max(range(len(ranks)), key=lambda rank: arrivals[rank])] += 1
    why = f"names as many ranks as it is asked for, two; times last by raw events: {dict(last)}"
    return Row("times last at a collective, by rank", str(dict(sorted(ours.items()))), str(dict(sorted(last.items()))), str(said), why)  # fmt: skip


def changes(ranks: list[Rows], traces: list[Path], said: dict[str, list[float]]) -> list[Row]:
    """Return what two runs spend on kernels and copies, by name and in all."""
    with tempfile.TemporaryDirectory() as out:
        pasta.run("diff", runs=dict(zip(("before", "after"), traces, strict=True)), out=out)
        rows = pl.read_parquet(Path(out) / "changes.parquet")
    ours = rows.filter(pl.col("kind") == "whole", pl.col("what") == "device")
    truths = [sum(row.dur for row in work(events)) for events in ranks]
    first = [whole_microseconds(_first_step(events)) for events in ranks]
    found = []
    for side, (column, label) in enumerate((("before_ns", "first"), ("after_ns", "second"))):
        names = {row.name for row in work(first[side])}
        hta = round(1000 * sum(row[2 * side + 1] for name, row in said.items() if name in names))  # fmt: skip
        compared = sum(row.dur for row in computing(first[side]) + communicating(first[side]) + copying(first[side]))  # fmt: skip
        why = "compares the first step of each, in whole us" if hta == compared else None
        found.append(Row(f"device time of the {label} run", ours[column].sum(), truths[side], hta, why))  # fmt: skip
    return found


def _first_step(events: Rows) -> Rows:
    """Return the work of the first step: what was called in it."""
    first = min((e for e in events if e.name.startswith("ProfilerStep") and e.category not in COPIES), key=lambda e: e.begin)  # fmt: skip
    made = calls(events)
    return [row for row in work(events) if row.correlation in made and first.begin <= made[row.correlation].begin < first.end]  # fmt: skip
