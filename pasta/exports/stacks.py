"""Stacks of samples and of spans, as collapsed lines and as speedscope's JSON."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from pasta.errors import InputError
from pasta.exports.exporter import Exported, exporter
from pasta.exports.lanes import FOREVER, Lanes
from pasta.exports.timeline import timeline
from pasta.trace import Trace

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_UNKNOWN_STACK = "samples without a known stack: written as `unknown`"

Thread = tuple[int, int, int]


@exporter("folded")
def export_folded(trace: Trace, out: str) -> Exported:
    """Write a line for each stack: of samples their weight, without samples spans' own ns."""
    exported = Exported()
    totals: dict[str, float] = defaultdict(float)
    if trace.has("sample"):
        for _, names, weight in _samples(trace, exported):
            totals[";".join(map(_plain, names))] += weight
    elif trace.has("span"):
        totals |= _self_times(trace, exported)
    else:
        raise InputError(f"{trace.path}: has neither samples nor spans, of which stacks are made")
    with Path(out).open("w", encoding="utf-8") as file:
        for stack, total in sorted(totals.items()):
            if total > 0:
                file.write(f"{stack} {round(total)}\n")
    return exported


@exporter("speedscope")
def export_speedscope(trace: Trace, out: str) -> Exported:
    """Write a profile for each thread's samples and each thread's spans; held in memory."""
    exported = Exported()
    frames: dict[str, int] = {}
    profiles = [*_sampled(trace, exported, frames), *_evented(trace, exported, frames)]
    if not profiles:
        raise InputError(f"{trace.path}: has neither samples nor spans, of which stacks are made")
    document = {
        "$schema": _SCHEMA,
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": profiles,
        "exporter": "pasta",
    }
    Path(out).write_bytes(msgspec.json.encode(document))
    return exported


def _plain(name: str) -> str:
    return " ".join(name.replace(";", ":").split()) or "unknown"


def _samples(trace: Trace, exported: Exported) -> Iterator[tuple[Thread, list[str], float]]:
    stacks: dict[tuple[int, int, int], list[str]] = {}
    if trace.has("frame"):
        frames = trace.scan("frame").sort("rank", "pid", "stack_id", "depth")
        for rank, pid, stack, name in (
            frames.select("rank", "pid", "stack_id", "function").collect().iter_rows()
        ):
            stacks.setdefault((rank, pid, stack), []).append(name or "unknown")
    columns = ("rank", "pid", "tid", "stack_id", "weight")
    rows = trace.scan("sample").select(pl.col(columns).fill_null(0)).collect()
    for rank, pid, tid, stack, weight in rows.iter_rows():
        names = stacks.get((rank, pid, stack), [])
        exported.losses[_UNKNOWN_STACK] += not names
        exported.rows["sample"] += 1
        yield (rank, pid, tid), names or ["unknown"], weight or 1.0


def _self_times(trace: Trace, exported: Exported) -> Counter[str]:
    """Return the time of each path of spans that no span below it takes, in ns."""
    totals: Counter[str] = Counter()
    open_spans: dict[tuple[Any, ...], list[tuple[int, str]]] = {}
    for event in timeline(trace, ("span",), exported, unfinished=False):
        key = (event.row["rank"], event.row["pid"], event.row["tid"])
        stack = open_spans.setdefault(key, [])
        while stack and stack[-1][0] <= event.ts:
            stack.pop()
        end = min([-event.before_end, *(until for until, _ in stack[-1:])])
        name = _plain(event.row["name"] or "")
        path = f"{stack[-1][1]};{name}" if stack else name
        totals[path] += end - event.ts
        if stack:
            totals[stack[-1][1]] -= end - event.ts
        stack.append((end, path))
    return totals


def _sampled(trace: Trace, exported: Exported, frames: dict[str, int]) -> list[dict[str, Any]]:
    if not trace.has("sample"):
        return []
    threads: dict[Thread, tuple[list[list[int]], list[float]]] = {}
    for thread, names, weight in _samples(trace, exported):
        samples, weights = threads.setdefault(thread, ([], []))
        samples.append([frames.setdefault(name, len(frames)) for name in names])
        weights.append(weight)
    return [
        {
            "type": "sampled",
            "name": _title(thread, "samples"),
            "unit": "none",
            "startValue": 0,
            "endValue": sum(weights),
            "samples": samples,
            "weights": weights,
        }
        for thread, (samples, weights) in threads.items()
    ]


def _evented(trace: Trace, exported: Exported, frames: dict[str, int]) -> list[dict[str, Any]]:
    if not trace.has("span"):
        return []
    lanes: dict[Thread, Lanes] = {}
    opened: dict[tuple[Thread, int], list[int]] = {}
    events: dict[tuple[Thread, int], list[dict[str, Any]]] = {}
    for event in timeline(trace, ("span",), exported, unfinished=False):
        row, until = event.row, -event.before_end
        thread = (row["rank"] or 0, row["pid"] or 0, row["tid"] or 0)
        lane, ended = lanes.setdefault(thread, Lanes()).place(event.ts, until)
        stack = opened.setdefault((thread, lane), [])
        found = events.setdefault((thread, lane), [])
        found += [{"type": "C", "frame": stack.pop(), "at": end} for end in ended]
        frame = frames.setdefault(row["name"] or "unknown", len(frames))
        found.append({"type": "O", "frame": frame, "at": event.ts})
        if until == event.ts:
            found.append({"type": "C", "frame": frame, "at": event.ts})
        else:
            stack.append(frame)
    for (thread, lane), stack in opened.items():
        ends = [end for end in reversed(lanes[thread].open[lane]) if end < FOREVER]
        events[thread, lane] += [{"type": "C", "frame": stack.pop(), "at": end} for end in ends]
    return [
        {
            "type": "evented",
            "name": _title(thread, "spans" if not lane else f"spans ({lane + 1})"),
            "unit": "nanoseconds",
            "startValue": found[0]["at"],
            "endValue": found[-1]["at"],
            "events": found,
        }
        for (thread, lane), found in events.items()
    ]


def _title(thread: Thread, what: str) -> str:
    return "rank {} pid {} tid {} ".format(*thread) + what
