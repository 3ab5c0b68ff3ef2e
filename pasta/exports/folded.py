"""Stacks of samples or of spans as collapsed lines: `a;b;c NUMBER`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from pasta.errors import InputError
from pasta.exports.columns import mapped, numbered
from pasta.exports.exporter import Exported, exporter
from pasta.exports.stacks import samples, stacks
from pasta.exports.timeline import timeline
from pasta.trace import Trace

_THREAD = ("rank", "pid", "tid")
_ROOT = -1


@exporter("folded")
def export_folded(trace: Trace, out: str) -> Exported:
    """Write a line for each stack: of samples their weight, without samples spans' own ns.

    Raises:
        InputError: the trace has neither samples nor spans.
    """
    exported = Exported()
    totals: Mapping[str, float]
    if trace.has("sample"):
        totals = _weights(trace, exported)
    elif trace.has("span"):
        totals = _self_times(trace, exported)
    else:
        raise InputError(f"{trace.path}: has neither samples nor spans, of which stacks are made")
    with Path(out).open("w", encoding="utf-8") as file:
        for stack, total in sorted(totals.items()):
            if total > 0:
                file.write(f"{stack} {round(total)}\n")
    return exported


def _plain(name: str) -> str:
    return " ".join(name.replace(";", ":").split()) or "unknown"


def _weights(trace: Trace, exported: Exported) -> dict[str, float]:
    """Return the weight of the samples of each stack."""
    known = stacks(trace)
    by_id: dict[tuple[int, int, int], float] = defaultdict(float)
    for batch in samples(trace, known, exported):
        for rank, pid, stack, weight in (
            batch.group_by("rank", "pid", "stack_id").agg(pl.col("weight").sum()).iter_rows()
        ):
            by_id[rank, pid, stack] += weight
    totals: dict[str, float] = defaultdict(float)
    for stack_id, weight in by_id.items():
        totals[";".join(map(_plain, known.get(stack_id, ["unknown"])))] += weight
    return totals


def _self_times(trace: Trace, exported: Exported) -> dict[str, int]:
    """Return the time of each path of spans that no span below it takes, in ns."""
    paths = _Paths()
    columns = ("tid", "dur", "name")
    for found in timeline(trace, ("span",), exported, unfinished=False, columns=columns):
        if "span" in found:
            paths.add(found["span"])
    return paths.totals()


class _Paths:
    """The distinct ways from an outermost span to a span, by name, and their own times."""

    def __init__(self) -> None:
        self._threads: dict[tuple[int, int, int], int] = {}
        self._open: list[list[tuple[int, int]]] = []
        self._names: dict[str, int] = {}
        self._paths: dict[tuple[int, int], int] = {}
        self._times: list[int] = []

    def add(self, spans: pl.DataFrame) -> None:
        """Add spans, in order of time; what reaches beyond the span around it is cut there."""
        threads = numbered(spans, _THREAD, self._thread)
        names = mapped(spans["name"], self._name, pl.Int64)
        times, paths = self._times, self._paths
        columns = (threads.tolist(), spans["ts"].to_list(), spans["end"].to_list(), names.to_list())
        for thread, ts, end, name in zip(*columns, strict=True):
            stack = self._open[thread]
            while stack and stack[-1][0] <= ts:
                stack.pop()
            until, parent = stack[-1] if stack else (end, _ROOT)
            until = min(end, until)
            if stack:
                times[parent] -= until - ts
            path = paths.get((parent, name))
            if path is None:
                path = paths[parent, name] = len(times)
                times.append(0)
            times[path] += until - ts
            stack.append((until, path))

    def totals(self) -> dict[str, int]:
        """Return the own time of each path, in ns."""
        names = list(self._names)
        texts: list[str] = []
        for parent, name in self._paths:
            texts.append(names[name] if parent == _ROOT else f"{texts[parent]};{names[name]}")
        return dict(zip(texts, self._times, strict=True))

    def _thread(self, key: tuple[int, int, int]) -> int:
        if key not in self._threads:
            self._threads[key] = len(self._open)
            self._open.append([])
        return self._threads[key]

    def _name(self, text: str) -> int:
        return self._names.setdefault(_plain(text), len(self._names))
