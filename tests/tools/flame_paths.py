"""Device time by launching path in plain Python, for comparison with `flame`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import polars as pl

from pasta.trace import Trace

Path = tuple[str, ...]


def paths_of(nodes: pl.DataFrame, value: str) -> dict[Path, Any]:
    """Return what ends at each path of a flame graph, as a tuple of names from the root in."""
    above = {node: (parent, name) for node, parent, name in nodes.select("node_id", "parent_id", "name").iter_rows()}  # fmt: skip
    found: Counter[Path] = Counter()
    for node, amount in nodes.select("node_id", value).iter_rows():
        way: list[str] = []
        step = node if amount else 0
        while step:
            step, name = above[step]
            way.append(name)
        if way:
            found[tuple(way[::-1])] += amount
    return dict(found)


def device_time(trace: Trace) -> dict[Path, int]:
    """Return the device time of each path of ranges and a kernel, moment by moment the first kernel's."""
    calls: dict[Any, Any] = {}
    for call in _rows(trace, "call"):
        calls.setdefault((call["rank"], call["pid"], call["correlation"]), call)
    ranges = _Ranges(span for span in _rows(trace, "span") if span["level"] != "step")
    kernels = [kernel for kernel in _rows(trace, "kernel") if kernel["dur"] is not None]
    kernels.sort(key=lambda kernel: (kernel["ts"], kernel["dur"], kernel["launch_id"]))
    reached: dict[Any, int] = {}
    found: Counter[Path] = Counter()
    for kernel in kernels:
        device, end = (kernel["rank"], kernel["device"]), kernel["ts"] + kernel["dur"]
        begin = max(kernel["ts"], reached.get(device, kernel["ts"]))
        reached[device] = max(end, begin)
        call = calls.get((kernel["rank"], kernel["pid"], kernel["correlation"] or None))
        if call is None:
            way: Path = ("(no launch recorded)",)
        else:
            way = ranges.around(call) or ("(no range, no stack)",)
        found[*way, kernel["name"]] += max(0, end - begin)
    return {path: time for path, time in found.items() if time}


def _rows(trace: Trace, table: str) -> list[dict[str, Any]]:
    return trace.scan(table).collect().to_dicts() if trace.has(table) else []


class _Ranges:
    """Spans by thread, outer ones first."""

    def __init__(self, spans: Iterable[dict[str, Any]]) -> None:
        self._threads = defaultdict(list)
        for span in spans:
            if span["dur"]:
                self._threads[span["rank"], span["pid"], span["tid"]].append(span)
        for thread in self._threads.values():
            thread.sort(key=lambda span: (span["ts"], -span["dur"]))

    def around(self, call: dict[str, Any]) -> Path:
        """Return the names of the spans of a call's thread that last when it is made."""
        thread = self._threads[call["rank"], call["pid"], call["tid"]]
        lasting = [span for span in thread if span["ts"] <= call["ts"] < span["ts"] + span["dur"]]
        return tuple(span["name"] for span in lasting)
