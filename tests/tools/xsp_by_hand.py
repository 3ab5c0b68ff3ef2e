"""What the fifteen analyses of XSP should tell of one process, in plain Python and by loops, for tests.

It reads the rows of tables and follows `docs/tools/xsp.md`; nothing of it comes from the tools.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Interval = tuple[int, int]

FLOPS = {
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 2,
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": 1,
    "sm__ops_path_tensor_src_fp16_dst_fp32.sum": 1,
}
READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the disjoint intervals that cover the same time."""
    found: list[Interval] = []
    for begin, end in sorted(one for one in intervals if one[0] < one[1]):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def length(intervals: Iterable[Interval]) -> int:
    return sum(end - begin for begin, end in union(intervals))


def at_once(left: Iterable[Interval], right: Iterable[Interval]) -> int:
    """Return for how long an interval of both sides lasts."""
    left, right = list(left), list(right)
    return length(left) + length(right) - length([*left, *right])


def interval(row: Row) -> Interval:
    return row["ts"], row["ts"] + row["dur"]


def kept(rows: list[Row], size: Callable[[Row], Any]) -> list[Row]:
    """Leave out a fifth at either end, at least one from three on."""
    ordered = sorted(rows, key=size)
    cut = 0 if len(rows) < 3 else max(len(rows) // 5, 1)
    return ordered[cut : len(ordered) - cut]


def mean(values: Iterable[Any]) -> float | None:
    """Return the mean of those that are known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def total(values: Iterable[Any]) -> Any:
    """Return the sum of those that are known; of none it is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def times(value: Any, factor: Any) -> Any:
    return None if value is None else value * factor


@dataclass
class Process:
    """A process of a run: its steps, layers and kernels.

    Attributes:
        steps: its steps, in order.
        layers: one for each layer, and the kernels that are in none, with index -1.
        kernels: one for each kernel of a layer.
        launches: each kernel that lies in a step.
        in_no_step, in_few_steps: kernels that are left out.
    """

    tables: dict[str, list[Row]]
    peaks: dict[str, float]
    bandwidth: float
    steps: list[Row] = field(default_factory=list)
    layers: list[Row] = field(default_factory=list)
    kernels: list[Row] = field(default_factory=list)
    launches: list[Row] = field(default_factory=list)
    in_no_step: list[Row] = field(default_factory=list)
    in_few_steps: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        spans = self.tables.get("span", [])
        self.steps = sorted((s for s in spans if s["level"] == "step"), key=lambda s: s["ts"])
        nodes = self._nodes(spans)
        self._name(nodes, spans)
        self._index(nodes)
        self._launch(nodes)
        self._measure_kernels()
        self._measure_layers(nodes)

    def step_at(self, time: int) -> int | None:
        inside = [n for n, step in enumerate(self.steps) if interval(step)[0] <= time < interval(step)[1]]  # fmt: skip
        return inside[0] if inside else None

    def _nodes(self, spans: list[Row]) -> list[Row]:
        """Return modules, and operators in none and in no other operator, with their own intervals."""
        modules = [dict(s) for s in spans if s["level"] == "module"]
        operators = [dict(s) for s in spans if s["level"] == "operator"]

        def within(inner: Row, outer: Row) -> bool:
            same = inner["tid"] == outer["tid"] and inner["span_id"] != outer["span_id"]
            return bool(same and outer["ts"] <= inner["ts"] and interval(inner)[1] <= interval(outer)[1])  # fmt: skip

        free = [o for o in operators if not any(within(o, other) for other in modules + operators)]
        nodes = [*modules, *free]
        for node in nodes:
            begin, end = interval(node)
            inner = union(interval(n) for n in nodes if within(n, node))
            edges = [begin, *(time for piece in inner for time in piece), end]
            node["own"] = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]
        return sorted(nodes, key=lambda n: (n["ts"], n["span_id"]))

    def innermost(self, nodes: list[Row], tid: int, time: int) -> Row | None:
        inside = [n for n in nodes if n["tid"] == tid and n["ts"] <= time < interval(n)[1]]
        return max(inside, key=lambda n: (n["ts"], -n["dur"]), default=None)

    def _name(self, nodes: list[Row], spans: list[Row]) -> None:
        """Give nodes layer, type and phase; backward ones those of their forward."""
        for node in nodes:
            text = node["name"].removeprefix("autograd::engine::evaluate_function: ")
            told = re.fullmatch(r"(.+) \(([^()]+)\)", text) if node["level"] == "module" else None
            node["layer"], node["type"] = told.groups() if told else (text, text)
            node["of"] = node["span_id"]
        forward = {}
        for span in sorted(spans, key=lambda s: s["ts"]):
            if span["level"] == "operator" and span["sequence"] is not None and span["forward_tid"] is None:  # fmt: skip
                forward[span["sequence"]] = self.innermost(nodes, span["tid"], span["ts"])
        trained = set()
        for node in nodes:
            node["phase"] = "forward" if node["level"] == "module" else "other"
            if node["forward_tid"] is not None:
                node["phase"] = "backward"
                first = forward.get(node["sequence"])
                if first is not None:
                    node["layer"], node["type"], node["of"] = first["layer"], first["type"], first["span_id"]  # fmt: skip
                    trained.add(first["span_id"])
        for node in nodes:
            if node["span_id"] in trained:
                node["phase"] = "forward"

    def _index(self, nodes: list[Row]) -> None:
        """Number layers in order of execution; what less than half of the steps call is none."""
        calls: dict[Any, list[Row]] = defaultdict(list)
        for node in nodes:
            node["window"], node["index"] = self.step_at(node["ts"]), None
            if node["window"] is not None:
                calls[node["window"], node["phase"], node["of"]].append(node)
        numbers: dict[Any, int] = defaultdict(int)
        places: dict[int, int] = defaultdict(int)
        layers: dict[Any, list[tuple[int, int, list[Row]]]] = defaultdict(list)
        for (window, phase, _of), spans in calls.items():
            same = (window, phase, spans[0]["layer"])
            layers[phase, spans[0]["layer"], numbers[same]].append((places[window], spans[0]["ts"], spans))  # fmt: skip
            numbers[same] += 1
            places[window] += 1
        regular = [found for found in layers.values() if 2 * len(found) >= len(self.steps)]
        regular.sort(key=lambda found: (min(f[0] for f in found), min(f[1] for f in found)))
        for index, found in enumerate(regular):
            for _place, _time, spans in found:
                for span in spans:
                    span["index"] = index

    def _launch(self, nodes: list[Row]) -> None:
        """Give each kernel its step, layer, counters and what the ceilings would need for it."""
        called = {call["correlation"]: call for call in self.tables.get("call", [])}
        counters: dict[int, dict[str, float]] = defaultdict(dict)
        for metric in self.tables.get("metric", []):
            counters[metric["launch_id"]][metric["name"]] = metric["value"]
        for row in self.tables.get("kernel", []):
            kernel, call = dict(row), called.get(row["correlation"])
            time = row["ts"] if call is None else call["ts"]
            node = None if call is None else self.innermost(nodes, call["tid"], time)
            kernel.update(window=self.step_at(time), moment=time, layer="(in no layer)", index=-1, phase="other", type="(none)")  # fmt: skip
            if node is not None and node["index"] is not None:
                kernel.update({key: node[key] for key in ("layer", "index", "phase", "type")})
            elif node is not None:
                kernel.update(index=-2)
            self._work(kernel, counters[row["launch_id"]])
            if kernel["window"] is None:
                self.in_no_step.append(kernel)
            elif kernel["index"] == -2:
                self.in_few_steps.append(kernel)
            if kernel["window"] is not None:
                self.launches.append(kernel)

    def _work(self, kernel: Row, values: dict[str, float]) -> None:
        flops: dict[str, float] = defaultdict(float)
        for name in FLOPS.keys() & values.keys():
            flops["fp16" if "fp16" in name else "fp32"] += FLOPS[name] * values[name]
        moved = None if READ not in values else values[READ] + values[WRITTEN]
        occupancy = values.get(OCCUPANCY)
        kernel.update(
            by_precision=dict(flops),
            flops=total(flops.values()),
            read_bytes=values.get(READ),
            written_bytes=values.get(WRITTEN),
            bytes=moved,
            compute_ns=total(1e9 * value / self.peaks[name] for name, value in flops.items()),
            memory_ns=None if moved is None else 1e9 * moved / self.bandwidth,
            occupied_ns=None if occupancy is None else kernel["dur"],
            occupancy_ns=None if occupancy is None else occupancy / 100 * kernel["dur"],
        )

    def _measure_kernels(self) -> None:
        order: dict[Any, list[Row]] = defaultdict(list)
        for launch in sorted(self.launches, key=lambda k: (k["moment"], k["ts"], k["launch_id"])):
            order[launch["window"], launch["index"], launch["name"]].append(launch)
        same: dict[Any, list[Row]] = defaultdict(list)
        for (_window, index, name), launches in order.items():
            for repeat, launch in enumerate(launches, start=1):
                same[index, name, repeat].append(launch)
        for (index, name, repeat), launches in same.items():
            if index == -2:
                continue
            counted = kept(launches, lambda k: (k["dur"], k["launch_id"]))
            row = {"index": index, "name": name, "repeat": repeat, "n": len(launches)}
            row |= {key: launches[0][key] for key in ("layer", "phase", "type")}
            for column in ("flops", "read_bytes", "written_bytes", "bytes", "compute_ns", "memory_ns"):  # fmt: skip
                row[column] = mean(k[column] for k in counted)
            row["kernel_ns"] = mean(k["dur"] for k in counted)
            row["occupied_ns"], row["occupancy_ns"] = (
                total(k[column] for k in counted) for column in ("occupied_ns", "occupancy_ns")
            )
            self.kernels.append(row)

    def _measure_layers(self, nodes: list[Row]) -> None:
        spans: dict[Any, list[Row]] = defaultdict(list)
        for node in nodes:
            if node["index"] is not None:
                spans[node["index"], node["window"]].append(node)
        launches: dict[Any, list[Row]] = defaultdict(list)
        for launch in self.launches:
            if launch["index"] != -2:
                launches[launch["index"], launch["window"]].append(launch)
        outside = [key for key in launches if key[0] == -1]
        calls: dict[int, list[Row]] = defaultdict(list)
        for index, window in [*spans, *outside]:
            found = self._call(spans.get((index, window), []), launches.get((index, window), []))
            calls[index].append(found | {"window": window})
        for index, rows in calls.items():
            self.layers.append({"index": index, "n": len(rows)} | self._layer(rows))

    def _call(self, nodes: list[Row], launches: list[Row]) -> Row:
        own = [piece for node in nodes for piece in node["own"]]
        run = [interval(launch) for launch in launches]
        row = {key: (nodes or launches)[0][key] for key in ("layer", "type", "phase")}
        memory = self.tables.get("memory", [])
        allocated = sum(
            m["bytes"] for m in memory if m["event"] == "allocate" and m["space"] == "tensor"
            if any(node["tid"] == m["tid"] and a <= m["ts"] < b for node in nodes for a, b in node["own"])
        )  # fmt: skip
        row |= {
            "latency_ns": length(own) if nodes else None,
            "total_ns": sum(node["dur"] for node in nodes) if nodes else None,
            "kernels": len(launches),
            "kernel_ns": length(run),
            "gpu_ns": at_once(own, run),
            "allocated_bytes": allocated if memory and nodes else None,
        }
        for column in ("flops", "read_bytes", "written_bytes", "bytes", "compute_ns", "memory_ns", "occupied_ns", "occupancy_ns"):  # fmt: skip
            row[column] = total(launch[column] for launch in launches)
        return row

    def _layer(self, calls: list[Row]) -> Row:
        def size(call: Row) -> tuple[int, int]:
            known = call["kernel_ns"] if call["latency_ns"] is None else call["latency_ns"]
            return known, call["window"]

        counted = kept(calls, size)
        row = {key: calls[0][key] for key in ("layer", "type", "phase")}
        for column in ("latency_ns", "gpu_ns"):
            values = [call[column] for call in counted]
            row[column] = None if None in values else sum(values) // len(values)
        for column in ("total_ns", "kernels", "kernel_ns", "allocated_bytes"):
            row[column] = mean(call[column] for call in counted)
        for column in ("flops", "read_bytes", "written_bytes", "bytes", "compute_ns", "memory_ns"):
            # No kernel is no flops; kernels without counters are unknown.
            known = [call for call in counted if call[column] is not None or call["kernels"] == 0]
            row[column] = times(total(call[column] for call in known), 1 / max(len(known), 1))
        for column in ("occupied_ns", "occupancy_ns"):
            row[column] = total(call[column] for call in counted)
        return row

    def of_step(self, rows: Iterable[Row], column: str) -> Any:
        """Return what a step takes of `column` in all: each row by the share of steps that it is in."""
        return times(total(times(row[column], row["n"]) for row in rows), 1 / len(self.steps))

    def model(self) -> Row:
        """Return the whole step: its time, and its kernels."""
        windows = kept([{"window": n, "dur": step["dur"]} for n, step in enumerate(self.steps)], lambda s: (s["dur"], s["window"]))  # fmt: skip
        rows = []
        for window in (step["window"] for step in windows):
            launches = [launch for launch in self.launches if launch["window"] == window]
            rows.append({"kernels": len(launches), "kernel_ns": length(map(interval, launches)), "latency_ns": self.steps[window]["dur"]})  # fmt: skip
            for column in ("flops", "bytes", "compute_ns", "memory_ns"):
                rows[-1][column] = total(launch[column] for launch in launches)
        row = {column: mean(r[column] for r in rows) for column in ("kernels", "kernel_ns", "latency_ns")}  # fmt: skip
        for column in ("flops", "bytes", "compute_ns", "memory_ns"):
            known = [r for r in rows if r[column] is not None or r["kernels"] == 0]
            row[column] = times(total(r[column] for r in known), 1 / max(len(known), 1))
        lasting = [interval(self.steps[step["window"]]) for step in windows]
        row["gpu_share"] = at_once(lasting, map(interval, self.launches)) / length(lasting)
        return row | {"n": len(self.steps), "counted": lasting}


def bound(row: Row) -> str | None:
    """Return what of a row takes longer: moving its bytes or computing its flops."""
    if row["compute_ns"] is None or row["memory_ns"] is None:
        return None
    return "memory" if row["compute_ns"] < row["memory_ns"] else "compute"
