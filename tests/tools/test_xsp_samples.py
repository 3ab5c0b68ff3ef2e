"""The analyses of layers on real traces, against a computation by hand that takes nothing from the tools."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import polars as pl
import pytest

import pasta
from pasta.tools.shipped import SHIPPED_TRACE


def intervals_without(start: int, end: int, others: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return what of an interval lies in none of the others."""
    pieces, at = [], start
    for begin, stop in sorted(others):
        if begin > at:
            pieces.append((at, min(begin, end)))
        at = max(at, stop)
    return [(a, b) for a, b in [*pieces, (at, end)] if a < b]


def length(intervals: list[tuple[int, int]]) -> int:
    total, at = 0, -(1 << 62)
    for start, end in sorted(intervals):
        total += max(0, end - max(at, start))
        at = max(at, end)
    return total


def layers_by_hand(trace: Any) -> list[dict[str, Any]]:
    """Return for each call of a module its own time, the union of its kernels, and both at once."""
    modules = trace.scan("span").filter(pl.col("level") == "module").sort("ts").collect()
    calls = trace.scan("call").collect()
    launched = {row["correlation"]: row for row in calls.iter_rows(named=True)}
    spans = modules.select("span_id", "tid", "ts", "dur", "name").rows()
    around: dict[tuple[int, int], int] = {}

    def innermost(tid: int, time: int) -> int | None:
        if (tid, time) not in around:
            inside = [s for s in spans if s[1] == tid and s[2] <= time < s[2] + s[3]]
            around[tid, time] = max(inside, key=lambda s: (s[2], -s[3]), default=(None,))[0]
        return around[tid, time]

    kernels: dict[int | None, list[tuple[int, int]]] = defaultdict(list)
    for row in trace.scan("kernel").collect().iter_rows(named=True):
        call = launched.get(row["correlation"])
        where = None if call is None else innermost(call["tid"], call["ts"])
        kernels[where].append((row["ts"], row["ts"] + row["dur"]))
    found = []
    for number, tid, start, dur, name in spans:
        inner = [(s[2], s[2] + s[3]) for s in spans if s[0] != number and s[1] == tid
                 and start <= s[2] and s[2] + s[3] <= start + dur]  # fmt: skip
        own = intervals_without(start, start + dur, inner)
        mine = kernels[number]
        busy = length(mine)
        both = length(own) + busy - length([*own, *mine])
        found.append({"name": name, "ts": start, "latency_ns": length(own), "kernels": len(mine), "kernel_ns": busy, "gpu_ns": both})  # fmt: skip
    return found


def modules_of(trace: Any, tool: str) -> pl.DataFrame:
    report = pasta.run(tool, trace=trace, top=100_000)
    layers = next(rows for rows in report.tables.values() if "latency_ns" in rows.columns)
    return layers.filter((pl.col("phase") == "forward") & (pl.col("level") == "module"))


@pytest.mark.parametrize("vendor", ["h100", "mi300"])
@pytest.mark.parametrize("tool", ["xsp/a11", "xsp/a13"])
def test_one_step_of_bert(samples, vendor, tool):
    trace = pasta.open(samples / "kineto" / f"tracelens_{vendor}_bert_small.json.gz")
    wanted = layers_by_hand(trace)
    found = modules_of(trace, tool).sort("index")
    assert len(wanted) == 84
    for column in ("latency_ns", "kernels", "kernel_ns", "gpu_ns"):
        assert found[column].to_list() == [row[column] for row in wanted], column
    assert (found["non_gpu_ns"] == found["latency_ns"] - found["gpu_ns"]).all()


def test_three_steps_of_the_shipped_trace():
    trace = pasta.open(SHIPPED_TRACE)
    steps = (
        trace.scan("span").filter(pl.col("level") == "step").sort("ts").collect()["ts"].to_list()
    )
    calls: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in layers_by_hand(trace):
        assert row["ts"] > steps[0]
        calls[row["name"]].append(row)
    middle = [sorted(rows, key=lambda row: row["latency_ns"])[1] for rows in calls.values()]
    found = modules_of(trace, "xsp/a11").sort("index")
    assert found["n"].to_list() == [3] * 28
    for column in ("latency_ns", "kernels", "kernel_ns", "gpu_ns"):
        assert found[column].to_list() == [row[column] for row in middle], column
